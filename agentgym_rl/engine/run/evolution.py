"""AgentEvol's rounds as resumable units: explore, then one unit an epoch of learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentgym_rl.algorithms.agentevol import Pool
from agentgym_rl.algorithms.bc import learning_rate
from agentgym_rl.algorithms.search import Branch, Played, search
from agentgym_rl.data import agenttraj
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.recipe.tasks import open_world
from agentgym_rl.engine.run.evaluation import VALIDATION, evaluate, labels, validation_success
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.journal import Journal
from agentgym_rl.engine.run.work import Work
from agentgym_rl.envs import Task
from agentgym_rl.rollout.supervised import with_observations

CHUNK = 32
"""Episodes written to the journal at once."""


class Evolution:
    """Explore, filter, learn; ``units`` of them make the stage."""

    def __init__(self, work: Work) -> None:
        self.work = work
        algorithm = work.config.algorithm
        self.pool = Pool(
            accumulate=algorithm.accumulate,
            max_per_task=algorithm.max_per_task,
            thresholds=algorithm.success_threshold,
        )
        if work.state.pool is not None:
            self.pool.load_state_dict(work.folder.load_pool(work.state.pool))
        worlds = {name: open_world(work.config, name) for name in work.config.worlds}
        self._starts = {name: len(world.spec.conversation_start(world.style)) for name, world in worlds.items()}
        self._replayable = [name for name, world in worlds.items() if world.spec.replayable]

    @property
    def units(self) -> int:
        return self.work.config.algorithm.steps * (1 + self.work.config.algorithm.epochs)

    def unit(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        """One unit: its metrics and the episodes it played."""
        number_of_round, phase = divmod(number, 1 + self.work.config.algorithm.epochs)
        return self._explore(number_of_round) if phase == 0 else (self._learn(number_of_round, phase - 1), [])

    def ends_phase(self, number: int) -> bool:
        """Whether a unit is an exploration or the last epoch of a round."""
        return number % (1 + self.work.config.algorithm.epochs) in (0, self.work.config.algorithm.epochs)

    def learns(self, number: int) -> bool:
        """Whether a unit changes the weights."""
        return number % (1 + self.work.config.algorithm.epochs) > 0

    # explore

    def _explore(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        work, state = self.work, self.work.state
        begun = time.monotonic()
        state.round_start, state.round_updates = state.checkpoint, list(state.updates)
        journal = Journal(work.folder.journal(state.global_step))
        if journal.played:
            work.say(f"round {number + 1}: {len(journal.played)} episodes are kept from before the stop")
        try:
            self._play_out(number, journal)
            work.learn([one for one, _ in journal.played.values() if not one.prefix_turns])
            searched = self._search(number, journal) if work.config.algorithm.search.calls else {}
            played = [journal.played[index] for index in sorted(journal.played)]
        finally:
            journal.close()
        counted = [(episode, samples) for episode, samples in played if samples]
        metrics = self.pool.add(number + 1, [one for one, _ in counted], [samples for _, samples in counted])
        self._write_successes(number + 1, counted)
        state.pool = work.folder.save_pool(state.global_step, self.pool.state_dict())
        work.trainer.rollout_s = time.monotonic() - begun
        metrics |= searched
        metrics["agentevol/round"] = number + 1
        metrics["agentevol/explore_s"] = work.trainer.rollout_s
        return metrics, [episode for episode, _ in played]

    def _play_out(self, number: int, journal: Journal) -> None:
        """Play what the journal does not have yet."""
        work = self.work
        rows: list[dict[str, Any]] = []
        for one in work.training_rows(number):
            for _ in range(one["__rollout_n__"]):
                tags = {**one["tags"], "index": len(rows), "round": number + 1}
                rows.append({**one, "index": len(rows), "tags": tags, "__rollout_n__": 1})
        left = [one for one in rows if one["index"] not in journal.played]
        kept = len(rows) - len(left)

        def take(played: list[Played]) -> None:
            for one in played:
                journal.add(one)

        if left:
            progress = self._progress(number, "explore", kept)
            work.trainer.play(left, validate=False, progress=progress, take=take, chunk=CHUNK)

    def _search(self, number: int, journal: Journal) -> dict[str, float]:
        """Search the tasks that all samples failed; what an interrupted search played is in the journal already."""
        work = self.work

        def play(branches: Sequence[Branch]) -> list[Played]:
            rows: list[dict[str, Any]] = []
            for branch in branches:
                index, fields = len(journal.played) + len(rows), branch.row()
                tags = {**fields.pop("tags"), "index": index, "round": number + 1}
                one = work.training_row(index, number, Task.parse(branch.item_id), __rollout_n__=1, tags=tags)
                rows.append({**one, **fields})
            played = work.trainer.play(rows, validate=False, progress=self._progress(number, "search", 0))
            for one_played in played:
                journal.add(one_played)
            return played

        found = search(
            list(journal.played.values()),
            play,
            work.config.algorithm.search,
            replayable=self._replayable,
            seed=f"{work.config.seed}:{number}",
        )
        for episode, samples in found.played:
            if not samples and episode.ending.counts:
                journal.add((episode, ()))  # its replay went another way
        return found.metrics()

    def _progress(self, number: int, what: str, before: int) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            self.work.bar(f"agentevol round {number + 1}: {what}", before + done, before + total)
            if self.work.stop():
                raise Interrupted

        return progress

    # learn

    def _learn(self, number: int, epoch: int) -> dict[str, float]:
        work, state, algorithm = self.work, self.work.state, self.work.config.algorithm
        begun = time.monotonic()
        restart = algorithm.restart_from == "base"
        if epoch == 0 and restart:
            work.trainer.restore(None)
            state.updates = []  # what earlier rounds learnt is gone; the control repeats this round's updates
        if epoch == 0 and (restart or number == 0):
            work.trainer.forget_optimizer(algorithm.lr)
        weight = work.config.bc.observation_weight
        found = [with_observations(one, weight) for success in self.pool.successes for one in success.weighted]
        lr = learning_rate(algorithm.lr, epoch, algorithm.epochs)
        work.bar(f"agentevol round {number + 1}: learn", epoch, algorithm.epochs)
        metrics = work.trainer.imitate(
            [*work.experts, *found],
            batch=algorithm.minibatch,
            lr=lr,
            seed=f"{work.config.seed}:evolve:{number}:{epoch}",
        )
        state.updates.append([metrics["supervised/updates"], lr, algorithm.minibatch])
        last = epoch + 1 == algorithm.epochs
        metrics["agentevol/learn_s"] = time.monotonic() - begun
        if last:
            work.trainer.publish()
            if labels(work, VALIDATION):
                metrics |= self._gate(number)
        return metrics

    def _gate(self, number: int) -> dict[str, float]:
        """Validate the round; with ``keep_best`` go back to its start when it lowered validation success."""
        work, state = self.work, self.work.state
        success = validation_success(work, evaluate(work, f"agentevol_round{number + 1}", VALIDATION))
        before = state.best
        worse = before is not None and success < before
        if not worse:
            state.best = success
        metrics = {"agentevol/validation": success}
        if work.config.algorithm.keep_best:
            metrics["agentevol/undone"] = float(worse)
            if worse:
                work.say(f"round {number + 1} lowered validation success to {success:.3f}; undone")
                work.trainer.restore(work.folder.checkpoint(state.round_start))
                state.updates = state.round_updates
        return metrics

    # files

    def _write_successes(self, number: int, counted: Sequence[Played]) -> None:
        """What the round kept, as AgentTraj JSON that any run can clone (``worlds.<name>.expert_file``)."""
        kept = {id(success.samples[0]) for success in self.pool.of_round(number)}
        for env in self.work.config.worlds:
            trajectories = [
                Trajectory.of(episode.item_id, episode.messages, self._starts[env])
                for episode, samples in counted
                if episode.env == env and id(samples[0]) in kept
            ]
            if trajectories:
                agenttraj.write(self.work.folder.path / "successes" / f"{env}_round{number}.json", trajectories)
