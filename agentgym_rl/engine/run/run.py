"""What the engine offers an algorithm: one run in progress."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ray.exceptions import RayTaskError

from agentgym_rl.algorithms.base import (
    AS_LOADED,
    START,
    Metrics,
    Needs,
    OnlineConfig,
    Policy,
    Preference,
    Request,
    Rollout,
    Supervised,
    Update,
    Weights,
    note_advantages,
)
from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import checkpoint
from agentgym_rl.engine.run.evaluation import VALIDATION, RunPanels, Scores
from agentgym_rl.engine.run.folder import Interrupted, RunFolder, State
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.engine.verl.liveness import root
from agentgym_rl.engine.verl.sync_probe import doubt
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.envs import Task
from agentgym_rl.eval.diagnosis import diagnose
from agentgym_rl.eval.score import Count, check_counted
from agentgym_rl.eval.step_line import step_line
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.supervised import Example

REDRAW = 1_000_000
"""Seed offset, in steps, between redraws of one step."""
CHUNK = 32
"""Episodes written to the journal at once."""


class NotSaved(RuntimeError):
    """A step could not be saved; the one before it stands."""

    def __init__(self, folder: Path, step: int, error: Exception) -> None:
        free = shutil.disk_usage(folder).free / 2**20
        super().__init__(
            f"step {step} could not be saved in {folder}, where {free:.0f} MiB are free: {root(error)}; mend it, and "
            "the same command resumes"
        )


@dataclass(kw_only=True)
class EngineRun:
    """Implements :class:`agentgym_rl.algorithms.base.Run`; the state is what a resumed run goes on from."""

    resolved: Resolved
    trainer: AgentTrainer
    folder: RunFolder
    state: State
    log: MetricsLog
    demonstrations: Sequence[Example]
    bar: Callable[[str, int, int], None]
    """Shows progress: what, how many done, of how many."""
    say: Callable[[str], None]
    stop: Callable[[], bool]
    """Whether the user asked to stop."""
    steps: int = 0
    """Units of the present stage."""
    episodes: list[Episode] = field(default_factory=list)
    """Training episodes of the present unit."""
    metrics: Metrics = field(default_factory=dict)
    """Metrics of the present unit beside those that the algorithm returns."""
    reported: set[tuple[str, str]] = field(default_factory=set)
    """Stage and rule of what was found to be wrong."""
    rollout_s: float = 0.0
    """Seconds that the rollouts of the present unit took."""
    _doubted: bool = False
    """It was said that vLLM's probabilities differ from those that learn."""
    _journal: Journal | None = None
    _asked: int = 0
    _calls: int = 0
    """Rollouts of the present unit that are not resumable."""
    writer: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "episodes"))
    """Writes episodes while the run goes on."""
    _writing: Future[None] | None = None

    def __post_init__(self) -> None:
        self.config = self.resolved.config
        self.mixture, self.curriculum = self.resolved.mixture, self.resolved.curriculum
        self.panels = RunPanels(self.resolved)
        self.replayable = [name for name, env in self.resolved.local.items() if env.spec.replayable]

    # units

    def begin_unit(self, stage: str, steps: int) -> None:
        self.stage, self.steps = stage, steps
        self.trainer.learner.optimizer = self.resolved.optimizer(stage)
        self.trainer.global_steps = self.state.global_step = self.state.global_step + 1
        self.episodes, self.metrics, self.rollout_s, self._asked, self._calls = [], {}, 0.0, 0, 0

    def end_unit(self) -> None:
        """Close the unit's journal; its episodes are those of the unit."""
        if self._journal is not None:
            self.episodes += [rollout.episode for rollout in self.journal()]
            self._journal.close()
            self._journal = None

    def report_unit(self) -> None:
        """Say how the unit went that was logged last, and once in a stage why it learns nothing."""
        rows = list(self.log.recent)
        self.say(step_line(rows))
        for finding in diagnose(rows):
            if (finding.stage, finding.rule) not in self.reported:
                self.reported.add((finding.stage, finding.rule))
                self.say(str(finding))
                self.log.alert(finding)

    # the protocol

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def step(self) -> int:
        return self.state.global_step

    @property
    def response_tokens(self) -> int:
        return self.config.model.response_tokens

    @property
    def observation_weight(self) -> float:
        return self.config.cloning.observation_weight

    @property
    def validation_success(self) -> float | None:
        return self.state.best

    def requests(self, number: int) -> list[Request]:
        return self._drawn(number, self.step)

    def request(self, number: int, task: Task, **fields: Any) -> Request:
        limit = self.curriculum.max_turns(task.env, number + 1) or self.resolved.max_turns(task.env)
        return Request(**{"task": task, "max_turns": limit, **fields})

    def batches(self, number: int) -> Iterator[list[Rollout]]:
        def rows(due: int, redraw: int, tasks: int | None = None) -> list[dict[str, Any]]:
            draw = self.step + due - number + REDRAW * redraw
            return self._rows(self._drawn(due, draw, tasks), f"{draw}")

        yield from self.trainer.sampler.batches(number, self.steps, rows)
        sampler = self.trainer.sampler
        self.metrics |= sampler.step_metrics
        if not self._doubted and (warning := doubt(sampler.step_metrics)) is not None:
            self.say(warning)
            self._doubted = True
        self.rollout_s += self.trainer.timing_raw["gen"]
        self.episodes += sampler.step_episodes
        self._observe(sampler.step_episodes)

    def rollouts(self, requests: Sequence[Request], label: str, *, resumable: bool = False) -> list[Rollout]:
        begun = time.monotonic()
        progress = partial(self.progress, label)
        try:
            if resumable:
                return self._resumable(requests, label)
            self._calls += 1
            rows = self._rows(requests, f"{self.step}:{self._calls}")
            found = self.trainer.sampler.rollouts(rows, validate=False, progress=progress)
            found.sort(key=lambda rollout: (rollout.episode.tags["index"], rollout.key))
            self.episodes += [rollout.episode for rollout in found]
            return found
        finally:
            self.rollout_s += time.monotonic() - begun

    def journal(self) -> list[Rollout]:
        kept = {} if self._journal is None else self._journal.entries
        return [self._kept(index) for index in sorted(map(int, kept))]

    def discard(self, rollout: Rollout) -> None:
        assert self._journal is not None, "only rollouts of the journal can be discarded"
        self._journal.add(str(rollout.episode.tags["index"]), Entry(rollout.episode))

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        self._observe([rollout.episode for rollout in rollouts])

    def update(self, update: Update, *, lr: float, seed: str = "") -> Metrics:
        """An update without a mini-batch of trajectories counts for the control as one of the cloning stage's size."""
        metrics: Metrics = {}
        size = self.config.cloning.mini_batch_trajectories
        match update:
            case Policy():
                note_advantages(update)
                count = self.trainer.learner.policy_step(update, lr)
            case Supervised():
                metrics, count = self.trainer.learner.sft_step(update, lr, seed, partial(self.progress, "learn"))
                size = update.mini_batch
            case Preference():
                metrics, count = self.trainer.learner.preference_step(update, lr, seed)
        if count:
            self.state.updates.append((count, lr, size))
            self.state.saved = self.state.fresh_optimizer = False
        return metrics

    def weights(self) -> Weights:
        assert self.state.saved, "the weights have changed since they were saved"
        return self._present()

    def restore(self, weights: Weights) -> None:
        state = self.state
        self.trainer.weights.restore(self.folder.checkpoint(weights.checkpoint))
        state.checkpoint, state.origin, state.updates = weights.checkpoint, weights.origin, list(weights.updates)
        state.saved = True

    def validate(self, label: str) -> float | None:
        return self.panels.validation_success(self.evaluate(label, VALIDATION, self.stage))

    def save_demonstrations(self, name: str, rollouts: Sequence[Rollout]) -> None:
        for env in self.config.envs:
            trajectories = [
                Trajectory.of(episode.item_id, episode.messages, episode.start)
                for episode in (rollout.episode for rollout in rollouts)
                if episode.env == env
            ]
            if trajectories:
                agenttraj.write(self.folder.path / "successes" / f"{env}_{name}.json", trajectories)

    def progress(self, label: str, done: int, total: int) -> None:
        self.bar(f"{self.stage} {label}", done, total)

    # the stages' side

    def begin_stage(self) -> None:
        """A stage starts with a fresh optimizer and counts its updates from the present weights."""
        self.trainer.weights.reset_optimizer()
        self.state.fresh_optimizer = True
        self.state.origin, self.state.updates = self.state.checkpoint, []

    def prepare(self, needs: Needs) -> None:
        """Start the critic of a stage from the policy, and keep the weights of its reference policy."""
        state, weights = self.state, self.trainer.weights
        present = self.folder.checkpoint(state.checkpoint)
        if needs.critic is not None and state.unit == 0 and present is not None:
            weights.start_critic(present)
        if needs.reference is None:
            return
        if needs.reference == START:
            reference = self.folder.checkpoint(state.origin)
        else:
            reference = None if needs.reference == AS_LOADED else Path(needs.reference).resolve()
        if reference == present:
            weights.remember_reference()
            return
        weights.restore(reference)
        weights.remember_reference()
        self._restore_present()

    def _restore_present(self) -> None:
        self.trainer.weights.restore(self.folder.checkpoint(self.state.checkpoint))
        if self.state.fresh_optimizer:
            self.trainer.weights.reset_optimizer()

    def resume(self) -> None:
        """Bring back what the state says."""
        state = self.state
        if state.mixture is not None:
            self.mixture.load_state_dict(state.mixture)
        if state.curriculum is not None:
            self.curriculum.load_state_dict(state.curriculum)
        self.mixture.leave_out([Task.parse(item_id) for item_id in state.left_out or ()])
        self.trainer.global_steps = state.global_step
        self._restore_present()

    def save(self, stage: str, algorithm_state: Mapping[str, Any]) -> None:
        """Write the run as it is now.

        Raises:
            NotSaved: it cannot be written.
        """
        self.save_files(stage, algorithm_state)
        self.save_state()

    def save_files(self, stage: str, algorithm_state: Mapping[str, Any]) -> None:
        """Write what the state names: weights where they changed, and the state of the algorithm."""
        state = self.state
        with self._saving():
            if not state.saved:
                state.checkpoint, state.saved = self.trainer.weights.save(), True
                checkpoint.seal(self.folder.checkpoints / state.checkpoint)
            state.algorithm = self.folder.save_algorithm(stage, state.global_step, algorithm_state)

    def store_episodes(self, name: str, episodes: Sequence[Episode]) -> None:
        """Begin to store the episodes of a step or an evaluation; they are there when the state is next saved.

        Raises:
            NotSaved: those before could not be stored.
        """
        self._stored()
        write = self.trainer.sampler.write_episodes
        self._writing = self.writer.submit(self.folder.write_episodes, name, episodes, write)

    def _stored(self) -> None:
        """Wait until the episodes given last are stored."""
        writing, self._writing = self._writing, None
        if writing is not None:
            with self._saving():
                writing.result()

    def save_state(self) -> None:
        """Write the state, to which the metrics logged so far belong; then files that no state needs any more go."""
        state = self.state
        self._stored()
        state.mixture, state.curriculum = self.mixture.state_dict(), self.curriculum.state_dict()
        state.logged = self.log.rows
        with self._saving():
            self.folder.save_state(state)
            self.folder.drop_leftovers(state, self.config.run.keep_checkpoints)

    @contextmanager
    def _saving(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RayTaskError) as error:
            raise NotSaved(self.folder.path, self.step, error) from error

    def evaluate(
        self, name: str, role: str | None = None, stage: str | None = None, *, stoppable: bool = False
    ) -> Scores:
        """Roll out the panels of a role with the current weights; log the scores and store the episodes.

        Args:
            name: for the episodes' file and the progress bar.
            role: None for all panels.
            stage: whose curve has the scores; None is ``name``.
            stoppable: end at once when the user asks to stop; all that came before must be saved.

        Raises:
            Interrupted: the user asked to stop.
            EnvUnavailable: too few episodes of a panel count (``run.min_counted``).
        """
        rows = self.panels.rows(role, self.step)
        if not rows:
            return {}
        begun, state = time.monotonic(), self.state

        def progress(done: int, total: int) -> None:
            self.bar(f"{name}: evaluate", done, total)
            if stoppable and self.stop():
                raise Interrupted

        found = self.trainer.sampler.rollouts(rows, validate=True, progress=progress)
        episodes = [rollout.episode for rollout in found]
        state.wall_s += time.monotonic() - begun
        state.count(episodes)
        self.store_episodes(f"val_{name}_step{self.step:06d}", episodes)
        scores, metrics = self.panels.scores(episodes, role)
        self.log.log(self.step, {f"stage/{stage or name}": state.unit, **state.spent(), **metrics})
        self.log.log_episodes(self.step, episodes)
        self.panels.check(episodes, role)
        return scores

    # helpers

    def _present(self) -> Weights:
        return Weights.from_dict(vars(self.state))

    def _drawn(self, number: int, draw: int, tasks: int | None = None) -> list[Request]:
        """The tasks of a step of the stage, or fewer; ``draw`` seeds which."""
        online = self.config.algorithm
        assert isinstance(online, OnlineConfig), f"algorithm={online.name} has no training episodes"
        draws = self.mixture.draw(draw, online.tasks_per_step if tasks is None else tasks, online.samples_per_task)
        return [self.request(number, one.task, samples=one.samples) for one in draws]

    def _rows(self, requests: Sequence[Request], draw: str, first: int = 0) -> list[dict[str, Any]]:
        """Dataset rows of requests; the tag ``index`` says which row of a draw an episode is of."""
        stream = f"{self.seed}:{draw}" if self.resolved.seeded else None
        return [
            row(
                index,
                one.task,
                max_turns=one.max_turns,
                seed=self.seed,
                tags={"split": "train", **one.tags, "index": index},
                __rollout_n__=one.samples,
                **({} if stream is None else {"stream": f"{stream}:{index}"}),
                **({} if one.branch is None else {"branch": dict(one.branch)}),
            )
            for index, one in enumerate(requests, start=first)
        ]

    def _resumable(self, requests: Sequence[Request], label: str) -> list[Rollout]:
        """Roll out what the journal does not have yet, and again what failed outside the agent before a stop."""
        journal = self._journal = self._journal or Journal(self.folder.journal(self.step))
        kept = len(journal.entries)
        if kept and not self._asked:
            self.say(f"{label}: {kept} episodes are kept from before the stop")
        first = max(self._asked, kept) if self._asked else 0
        single = [one for one in requests for _ in range(one.samples)]
        rows = [{**one, "__rollout_n__": 1} for one in self._rows(single, f"{self.step}", first)]
        self._asked = first + len(rows)
        done = {
            (key, entry.episode.item_id) for key, entry in journal.entries.items() if entry.episode and entry.counts
        }
        left = [one for one in rows if (str(one["index"]), one["item_id"]) not in done]

        def progress(done: int, total: int) -> None:
            self.progress(label, len(rows) - total + done, len(rows))
            if self.stop():
                raise Interrupted

        def take(found: list[Rollout]) -> None:
            for rollout in found:
                entry = Entry(rollout.episode, rollout.segments)
                journal.add(str(rollout.episode.tags["index"]), entry)

        if left:
            self.trainer.sampler.rollouts(left, validate=False, progress=progress, take=take, chunk=CHUNK)
        return [self._kept(one["index"]) for one in rows]

    def _kept(self, index: int) -> Rollout:
        """A rollout of the journal."""
        assert self._journal is not None
        entry = self._journal.entries[str(index)]
        assert entry.episode is not None
        return Rollout(episode=entry.episode, segments=entry.examples)

    def _observe(self, episodes: Sequence[Episode]) -> None:
        """Raises EnvUnavailable: too few episodes of an environment count (``run.min_counted_training``)."""
        by_env: dict[str, list[Episode]] = {}
        for episode in episodes:
            by_env.setdefault(episode.env, []).append(episode)
        parts = {env: Count.of(found, len(found)) for env, found in sorted(by_env.items())}
        check_counted(parts, self.config.run.min_counted_training, "run.min_counted_training")
        own = [episode for episode in episodes if not episode.prefix_turns]
        self.mixture.observe(own)
        self.curriculum.observe(own)
        self._leave_out({episode.item_id for episode in episodes if episode.ending is Ending.PROMPT_LIMIT})

    def _leave_out(self, item_ids: set[str]) -> None:
        """Draw no more the tasks of a large pool that turned out not to fit into the prompt."""
        known = self.state.left_out or []
        if new := sorted(item_ids.difference(known)):
            self.state.left_out = [*known, *new]
            self.mixture.leave_out([Task.parse(item_id) for item_id in new])
            limit = self.config.model.prompt_tokens
            self.say(f"{', '.join(new)} do not fit into model.prompt_tokens={limit} and are left out from now on")
