"""One run in progress, which the engine offers an algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from agentgym_rl.algorithms.base import Algorithm, Keep, Metrics, Needs, Plan, Request, Rollout, Weights
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.losses.cross_entropy import CrossEntropy
from agentgym_rl.algorithms.model import POLICY
from agentgym_rl.algorithms.rows import Row, note_advantages
from agentgym_rl.algorithms.step_worth import steps_left_by_turn
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import demonstrations
from agentgym_rl.engine.run.demonstrations import Encoder
from agentgym_rl.engine.run.evaluation import VALIDATION, RunPanels, Scores
from agentgym_rl.engine.run.folder import Interrupted, RunFolder, State
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.run.resumable import Resumable
from agentgym_rl.engine.run.saver import Saver
from agentgym_rl.engine.run.stage_models import policy_of, prepare
from agentgym_rl.engine.run.texts import Texts
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.engine.verl.sync_probe import doubt
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import Message
from agentgym_rl.rollout.counted import Count, check_counted

REDRAW = 1_000_000
"""Seed offset, in steps, between redraws of one step."""


@dataclass(kw_only=True)
class EngineRun:
    """Implements :class:`agentgym_rl.algorithms.base.Run`; the state is what a resumed run goes on from."""

    resolved: Resolved
    trainer: AgentTrainer
    folder: RunFolder
    state: State
    log: MetricsLog
    encoder: Encoder
    demonstrations: Sequence[Rollout]
    bar: Callable[[str, int, int], None]
    """Shows progress: what, how many done, of how many."""
    say: Callable[[str], None]
    stop: Callable[[], bool]
    """True once the user asked to stop."""
    general: Sequence[Rollout] = ()
    texts: Texts = field(default_factory=Texts)
    """Who can be asked for texts."""
    steps: int = 0
    """Units of the present stage."""
    episodes: list[Episode] = field(default_factory=list)
    """Training episodes of the present unit."""
    evaluated: list[Episode] = field(default_factory=list)
    """Episodes of the panels that were rolled out last."""
    metrics: Metrics = field(default_factory=dict)
    """Metrics of the present unit beside those that the algorithm returns."""
    evaluation_s: float = 0.0
    """Seconds of the evaluations in the present unit."""
    _doubted: bool = False
    """It was said that vLLM's probabilities differ from those that learn."""
    _calls: int = 0
    """Rollouts of the present unit that are not resumable."""
    _begun: float = 0.0
    """When the present unit began, by the monotonic clock."""

    def __post_init__(self) -> None:
        self.config = self.resolved.config
        self.mixture, self.curriculum = self.resolved.mixture, self.resolved.curriculum
        self.mixture.ask, self.mixture.say = self._ask, self.say
        self.panels = RunPanels(self.resolved)
        self.saver = Saver(
            trainer=self.trainer, folder=self.folder, state=self.state, log=self.log, mixture=self.mixture,
            curriculum=self.curriculum, keep=self.config.run.keep_checkpoints,
        )  # fmt: skip
        self.algorithm: Algorithm[Any] = self.resolved.algorithm
        """That of the present stage."""
        self.rules, self.pools, self.panel_tasks = self.resolved.rules, self.resolved.pools, self.resolved.panel_tasks

    # units

    def begin_unit(self, stage: str, steps: int) -> None:
        self.stage, self.steps = stage, steps
        self.trainer.learner.optimizer = self.resolved.optimizer(stage)
        self.trainer.global_steps = self.state.global_step = self.state.global_step + 1
        self.episodes, self.metrics, self._calls, self.evaluation_s = [], {}, 0, 0.0
        self.trainer.timing_raw, self._begun = {}, time.monotonic()
        self.texts.begin(self.folder.texts(self.step), f"{self.seed}:{self.step}")
        self.resumable = Resumable(
            file=self.folder.journal(self.step), sampler=self.trainer.sampler, say=self.say, stop=self.stop,
            rows=lambda requests, first: self._rows(requests, f"{self.step}", first),
        )  # fmt: skip

    def end_unit(self) -> None:
        """Close the unit's journals; the episodes are those of the unit, and its seconds are logged by phase."""
        self.metrics |= self.texts.end()
        seconds = {"step": time.monotonic() - self._begun, **self.trainer.timing_raw}
        self.metrics |= {f"timing_s/{phase}": spent for phase, spent in seconds.items()}
        self.state.written = self.texts.usage.to_dict()
        self.episodes += [rollout.episode for rollout in self.resumable.all()]
        self.resumable.close()

    # the protocol

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
    def context(self) -> int:
        return self.config.model.context

    @property
    def observation_weight(self) -> float:
        return self.config.cloning.observation_weight

    @property
    def learn_invalid(self) -> bool:
        return self.config.cloning.learn_invalid

    @property
    def solved(self) -> frozenset[str]:
        return self.panels.solved(self.evaluated)

    @property
    def validation_success(self) -> float | None:
        return self.state.best

    @property
    def replayable(self) -> list[str]:
        local = self.resolved.local
        names = (*local, *self.mixture.parts)
        return [name for name in names if local[self.resolved.whole(name)].spec.replayable]

    def environment(self, name: str) -> TextEnv:
        return self.resolved.session(name)

    def steps_left(self, episode: Episode) -> list[float] | None:
        return steps_left_by_turn(self.resolved.facts(episode.env), episode)

    def requests(self, number: int) -> list[Request]:
        return self._drawn(number, self.step)

    def request(self, number: int, task: Task, **fields: Any) -> Request:
        env = self.resolved.whole(task.env)
        limit = self.curriculum.max_turns(env, number + 1) or self.resolved.max_turns(env)
        own = self.resolved.facts(task.env).spec.max_turns
        return Request(**{"task": task, "max_turns": limit or own, **fields})

    def batches(
        self, number: int, plan: Plan | None = None, *, keep: Keep | None = None, refills: int = 0
    ) -> Iterator[list[Rollout]]:
        def rows(due: int, redraw: int, tasks: int | None = None) -> list[dict[str, Any]]:
            draw = self.step + due - number + REDRAW * redraw
            drawn = self._drawn(due, draw, tasks)
            return self._rows(drawn if plan is None or redraw else planned(plan(due, drawn), len(drawn)), f"{draw}")

        progress = partial(self.progress, "rollouts")
        yield from self.trainer.sampler.batches(number, self.steps, rows, keep, refills, progress)
        sampler = self.trainer.sampler
        self.metrics |= sampler.step_metrics
        if not self._doubted and (warning := doubt(sampler.step_metrics)) is not None:
            self.say(warning)
            self._doubted = True
        self.episodes += sampler.step_episodes
        self._observe(sampler.step_episodes)

    def rollouts(self, requests: Sequence[Request], label: str, *, resumable: bool = False) -> list[Rollout]:
        progress = partial(self.progress, label)
        if resumable:
            return self.resumable.rollouts(requests, label, progress)
        self._calls += 1
        rows = self._rows(requests, f"{self.step}:{self._calls}")
        rollouts = self.trainer.sampler.rollouts(rows, validate=False, progress=progress)
        rollouts.sort(key=lambda rollout: (rollout.episode.tags["index"], rollout.key))
        self.episodes += [rollout.episode for rollout in rollouts]
        return rollouts

    def encode(self, messages: Sequence[Message], task: Task) -> Rollout:
        return self.encoder.conversation(messages, task)

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        self._observe([rollout.episode for rollout in rollouts])

    def learn(
        self, rows: Sequence[Row], loss: Loss[Any], *, lr: float, mini_batch: int, model: str = POLICY, **passes: Any
    ) -> Metrics:
        """An update of another loss than the control's counts for it as one of the cloning stage's size."""
        if model == POLICY:
            note_advantages(rows)
        learn, progress = self.trainer.learner.learn, partial(self.progress, "learn")
        metrics, count = learn(rows, loss, lr=lr, mini_batch=mini_batch, model=model, progress=progress, **passes)
        with_critic = model == POLICY and self.resolved.needs.critic is not None  # which learns in its warm-up alone
        self.state.saved = self.state.saved and not (count or with_critic)
        if model != POLICY:
            return {f"{model}/{name.partition('/')[2]}": value for name, value in metrics.items()}
        if count:
            imitates = isinstance(loss, CrossEntropy)
            size = mini_batch if imitates else self.config.cloning.mini_batch_trajectories
            self.state.updates.append((count, lr, size))
            self.state.stage_updates += count
            self.state.fresh_optimizer = False
        return metrics

    def score(
        self, rows: Sequence[Row], by: str | Weights = POLICY, *, name: str, entropy: bool = False, read: bool = False
    ) -> list[Row]:
        place = by if isinstance(by, str) else policy_of(self.folder, by.checkpoint)
        return self.trainer.learner.score(rows, place, name, entropy=entropy, read=read)

    def generate(self, conversations: Sequence[Sequence[Message]], by: str = POLICY, **asked: Any) -> list[list[str]]:
        if by == POLICY:
            self.trainer.weights.ensure_synced()
        return self.texts.generate(conversations, by, progress=partial(self.progress, "generate"), **asked)

    def weights(self) -> Weights:
        assert self.state.saved, "the weights have changed since they were saved"
        return Weights.from_dict(vars(self.state))

    def restore(self, weights: Weights) -> None:
        state = self.state
        self.trainer.weights.restore(self.folder.checkpoint(weights.checkpoint))
        state.checkpoint, state.origin, state.updates = weights.checkpoint, weights.origin, list(weights.updates)
        state.saved = not any(self.trainer.weights.models.values())  # what they learned is in no older checkpoint
        if not weights.updates:  # the checkpoint may have moments of the stage before
            self.trainer.weights.reset_optimizer()
            state.fresh_optimizer = True

    def validate(self, label: str) -> float | None:
        return self.panels.validation_success(self.evaluate(label, VALIDATION, self.stage))

    def save_demonstrations(self, name: str, rollouts: Sequence[Rollout]) -> None:
        demonstrations.save(self.folder.path / "successes", name, rollouts)

    def progress(self, label: str, done: int, total: int) -> None:
        self.bar(f"{self.stage} {label}", done, total)

    # the stages' side

    def begin_stage(self) -> None:
        """A stage starts without models and moments of earlier ones and counts its updates from the present weights."""
        self.trainer.weights.begin_models()
        self.trainer.weights.reset_optimizer()
        self.state.fresh_optimizer = True
        self.state.origin, self.state.updates, self.state.stage_updates = self.state.checkpoint, [], 0

    def prepare(self, needs: Needs) -> None:
        """Have the workers keep what a stage needs beside the policy."""
        prepare(needs, self.state, self.folder, self.trainer.weights)

    def resume(self) -> None:
        """Bring back what the state says."""
        state = self.state
        if state.mixture is not None:
            self.mixture.load_state_dict(state.mixture)
        if state.curriculum is not None:
            self.curriculum.load_state_dict(state.curriculum)
        self.mixture.leave_out([Task.parse(item_id) for item_id in state.left_out or ()])
        self.trainer.global_steps = state.global_step
        self.trainer.weights.restore(self.folder.checkpoint(state.checkpoint))
        if state.fresh_optimizer:
            self.trainer.weights.reset_optimizer()

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
        rows = [{**row, **self._preface(Task.parse(row["item_id"]))} for row in self.panels.rows(role, self.step)]
        if not rows:
            return {}
        begun, state = time.monotonic(), self.state

        def progress(done: int, total: int) -> None:
            self.bar(f"{name}: evaluate", done, total)
            if stoppable and self.stop():
                raise Interrupted

        rollouts = self.trainer.sampler.rollouts(rows, validate=True, progress=progress)
        self.evaluated = episodes = [rollout.episode for rollout in rollouts]
        seconds = time.monotonic() - begun
        state.wall_s += seconds
        self.evaluation_s += seconds
        state.count(episodes)
        self.saver.store_episodes(f"val_{name}_step{self.step:06d}", episodes)
        scores, metrics = self.panels.scores(episodes, role)
        self.log.log(self.step, {f"stage/{stage or name}": state.unit, **state.spent(), **metrics})
        self.log.log_episodes(self.step, episodes)
        self.panels.check(episodes, role)
        return scores

    # helpers

    def _ask(self, question: str) -> str:
        """What the writer answers the mixture."""
        ((text,),) = self.generate([[{"role": "user", "content": question}]], by="writer", max_tokens=1024)
        return text

    def _drawn(self, number: int, draw: int, tasks: int | None = None) -> list[Request]:
        """The tasks of a step of the stage, or fewer; ``draw`` seeds which."""
        online = self.config.algorithm.online
        assert online is not None, f"algorithm={self.config.algorithm.name} has no training episodes"
        draws = self.mixture.draw(draw, online.tasks_per_step if tasks is None else tasks, online.samples_per_task)
        return [self.request(number, drawn.task, samples=drawn.samples) for drawn in draws]

    def _rows(self, requests: Sequence[Request], draw: str, first: int = 0) -> list[dict[str, Any]]:
        """Dataset rows of requests; the tag ``index`` says which row of a draw an episode is of."""
        stream = f"{self.seed}:{draw}" if self.resolved.seeded else None
        return [
            row(
                index,
                request.task,
                max_turns=request.max_turns,
                seed=self.seed,
                tags={"split": "train", **request.tags, "index": index},
                __rollout_n__=request.samples,
                **({} if stream is None else {"stream": f"{stream}:{index}"}),
                **({} if request.temperature is None else {"decoding": "sampled", "temperature": request.temperature}),
                **({} if request.prefix is None else {"prefix": request.prefix.to_dict()}),
                **self._preface(request.task, request.preface, request.prompt),
                **self._part(request.task.env),
            )
            for index, request in enumerate(requests, start=first)
        ]

    def _preface(self, task: Task, of_request: str = "", instead: str | None = None) -> dict[str, str]:
        """The field of a row that says what stands before the first observation, where something does."""
        text = self.resolved.preface(task, self.algorithm, of_request, instead)
        return {"preface": text} if text else {}

    def _part(self, env: str) -> dict[str, Any]:
        """The fields of a row that say what a part of an environment is."""
        part = self.mixture.parts.get(env)
        return {} if part is None else {"part_of": part.env, "options": dict(part.settings)}

    def _observe(self, episodes: Sequence[Episode]) -> None:
        """Raises EnvUnavailable: too few episodes of an environment count (``run.min_counted_training``)."""

        def whole(episode: Episode) -> str:
            return self.resolved.whole(episode.env)

        by_env = groupby(sorted(episodes, key=whole), whole)
        parts = {env: Count.of(of_env := [*group], len(of_env)) for env, group in by_env}
        check_counted(parts, self.config.run.min_counted_training, "run.min_counted_training")
        from_start = [episode for episode in episodes if not episode.prefix_turns]
        self.mixture.observe(from_start)
        self.curriculum.observe(from_start, self.resolved.whole)
        self._leave_out({episode.item_id for episode in episodes if episode.ending is Ending.PROMPT_LIMIT})

    def _leave_out(self, item_ids: set[str]) -> None:
        """Draw no more the tasks of a large pool that turned out not to fit into the prompt."""
        known = self.state.left_out or []
        if new := sorted(item_ids.difference(known)):
            self.state.left_out = [*known, *new]
            self.mixture.leave_out([Task.parse(item_id) for item_id in new])
            limit = self.config.model.prompt_tokens
            self.say(f"{', '.join(new)} do not fit into model.prompt_tokens={limit} and are left out from now on")


def planned(requests: Sequence[Request], tasks: int) -> list[Request]:
    """The requests of a step that an algorithm has planned.

    Raises:
        ValueError: there are more or fewer than the tasks of a step.
    """
    if len(requests) != tasks:
        raise ValueError(f"a step takes algorithm.tasks_per_step={tasks} requests, and {len(requests)} were planned")
    return list(requests)
