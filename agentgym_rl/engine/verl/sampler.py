"""The rollouts of a run: of whole phases, and of training steps as their episodes finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.debug import marked_timer

from agentgym_rl.algorithms.base import Keep, Metrics, Rollout, groups
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.mapping import renamed
from agentgym_rl.engine.verl.schedule import Schedule
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import Progress
from agentgym_rl.engine.verl.weights import Weights
from agentgym_rl.rollout.recorder import Advantages
from agentgym_rl.rollout.supervised import Example

Rows = Callable[[int, int, int | None], list[dict[str, Any]]]
"""The rows of a step (from 0); or, by the other two arguments, of its n-th redraw and how many of them."""


class Sampler:
    """Has rows rolled out, and takes their episodes and tokens out of verl's queue."""

    def __init__(self, verl: Any, settings: Settings, weights: Weights, learner: Learner, ahead: int) -> None:
        """
        Args:
            verl: verl's trainer, with its replay buffer and the manager of the agent loops.
            learner: takes the batches.
            ahead: steps whose episodes are under way while an earlier one is learned from.
        """
        self.verl, self.settings, self.weights, self.learner = verl, settings, weights, learner
        self.schedule = Schedule(ahead)
        self.step_metrics: Metrics = {}
        """Of the latest training step."""
        self.step_episodes: list[Episode] = []
        """All episodes of the present training step, also those that do not count."""
        self._rows: Rows | None = None
        self._number = self._redraws = 0
        self._keep: Keep | None = None
        self._refills = 0
        self._left_out: Counter[str] = Counter()
        """Groups of the present step that were filtered and refilled, and episodes that were sampled to learn from."""
        self._uids = count()
        """Numbers of prompts, in the order in which they are submitted; it orders rows, whichever finish first."""

    # whole phases

    def rollouts(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        validate: bool,
        progress: Progress | None = None,
        take: Callable[[list[Rollout]], None] | None = None,
        chunk: int | None = None,
    ) -> list[Rollout]:
        """Roll out rows with the current weights.

        Args:
            rows: see :func:`agentgym_rl.engine.verl.dataset.row`.
            validate: keep them apart from training episodes.
            progress: called while episodes run; an exception from it ends the rollouts.
            take: given every ``chunk`` finished rows while others still run.
            chunk: None waits for all.

        Returns:
            All episodes with their tokens, in the order in which they finished; those that failed have none.
        """
        self.weights.ensure_synced()
        partition = self.submit(rows, self.verl.global_steps, validate=validate)
        buffer = self.verl.replay_buffer
        rollouts: list[Rollout] = []
        done = 0
        with buffer.exploring(), marked_timer("gen", {} if validate else self.verl.timing_raw):
            while done < len(rows):
                if progress is not None:
                    buffer.progress = partial(_shifted, progress, done, len(rows))
                size = min(chunk or len(rows), len(rows) - done)
                finished = self.take_finished(partition, size)
                done += size
                rollouts += finished
                if take is not None:
                    take(finished)
        return rollouts

    def take_finished(self, partition: str, size: int) -> list[Rollout]:
        """Wait for ``size`` rows to finish and take their episodes and tokens."""
        buffer = self.verl.replay_buffer
        sampled, _ = buffer.sample(global_steps=self.verl.global_steps, partition_id=partition, batch_size=size)
        episodes = buffer.take_episodes()
        segments: dict[str, list[Example]] = {session: [] for session in episodes}
        if keys := sorted(sampled.keys, key=queue.segment_of):
            for key, example in zip(keys, queue.examples_of(keys, partition), strict=True):
                segments[queue.session_of(key)].append(example)
            tq.kv_clear(keys=keys, partition_id=partition)
        return [
            Rollout(episode=episode, segments=segments[session], group=queue.prompt_of(session), key=session)
            for session, episode in episodes.items()
        ]

    def submit(self, rows: Sequence[dict[str, Any]], due: int, *, validate: bool = False) -> str:
        """Start the episodes of rows; ``due`` is the global step that takes them. Returns their queue partition."""
        keys = dict.fromkeys(key for row in rows for key in row)
        columns = collate_fn([{key: row.get(key) for key in keys} for row in rows])
        columns["uid"] = np.array([f"{next(self._uids):09d}" for _ in rows], dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", self.verl.global_steps)
        if validate:
            tu.assign_non_tensor_data(batch, "validate", True)
        partition = "val" if validate else "train"
        tags = [{"is_prompt": True, "status": "pending", "global_steps": due}] * len(batch)
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.verl.agent_loop_manager.generate_sequences(batch)
        return partition

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        """The agent-loop processes write the episodes that they ran; see :mod:`agentgym_rl.rollout.recorder`."""
        written: list[list[str]] = self.verl.agent_loop_manager.write_episodes(path, asked)
        return written

    # batches of a policy gradient

    def batches(
        self,
        number: int,
        steps: int,
        rows: Rows,
        keep: Keep | None = None,
        refills: int = 0,
        progress: Progress | None = None,
    ) -> Iterator[list[Rollout]]:
        """The rollouts of a training step that count; each batch takes one policy update before the next.

        After the last, the weights are synchronised and :attr:`step_metrics` is complete.

        Args:
            number: of the step, from 0; its rows are ``rows(number, 0, None)``.
            steps: of the whole stage; no episodes start for later ones.
            keep: whether a group of several episodes stays; None keeps all.
            refills: most groups that the step rolls out in place of others.
            progress: called while episodes run, with the number of tasks that are done and of all under way.

        Raises:
            NothingToLearn: no episode of the step can be learned from.
        """
        verl = self.verl
        self._rows, self._number, self._redraws, self._left_out = rows, number, 0, Counter()
        self._keep, self._refills = keep, refills
        self.step_episodes = []
        self.learner.begin_step()
        self.settings.begin_step(number, verl.global_steps)
        self.weights.ensure_synced(verl.global_steps - 1)
        learnt: list[KVBatchMeta] = []
        with marked_timer("step", verl.timing_raw):
            for due in self.schedule.start(number, steps):
                self.submit(rows(due, 0, None), verl.global_steps + due - number)
            verl.on_step_begin()
            for _ in range(verl.parameter_sync_step):
                verl.local_trigger_step = len(learnt)  # at the first, verl keeps the weights of old log-probabilities
                verl.replay_buffer.progress = progress
                rollouts = self._sample()
                verl.replay_buffer.progress = None
                yield rollouts
                if (batch := self.learner.give_up()) is not None:
                    learnt.append(batch)
            in_parts, count = verl.parameter_sync_step > 1, self._left_out  # each of which may have nothing
            if in_parts and not count["sampled"] and not count["filtered"]:
                failed = [episode for episode in self.step_episodes if not episode.ending.counts]
                why = f"; the last of {len(failed)} that failed: {failed[-1].error}" if failed else ""
                raise queue.NothingToLearn(
                    f"none of the {len(self.step_episodes)} episodes of this step can be learned from{why}"
                )
            self.weights.sync()
        metrics = {**self.learner.metrics.get_aggregated_metrics(), **self.weights.sync_metrics}
        if keep is not None:
            filtered, refilled = self._left_out["filtered"], self._left_out["refilled"]
            metrics |= {"batch/filtered_groups": filtered, "batch/refilled_groups": refilled}
            metrics["batch/unfilled_groups"] = filtered - refilled
        if learnt:
            keys = [key for batch in learnt for key in batch.keys]
            joined = KVBatchMeta(partition_id="train", keys=keys, tags=[tag for batch in learnt for tag in batch.tags])
            verl._compute_metrics(joined, metrics, verl.timing_raw, global_steps=verl.global_steps, epoch=0)
            tq.kv_clear(keys=joined.keys, partition_id=joined.partition_id)
        self.step_metrics = {renamed(key): float(value) for key, value in metrics.items()}

    def _sample(self) -> list[Rollout]:
        """The rollouts of the next batch, which the learner takes."""
        verl, metrics = self.verl, dict[str, Any]()
        with marked_timer("gen", verl.timing_raw):
            verl.on_sample_begin()
            batch, episodes = self._groups(self.settings.config.data.train_batch_size // verl.parameter_sync_step)
            batch.extra_info = {"temperature": self.settings.temperature}
            verl.on_sample_end()
            self.weights.synced = False
        self.step_episodes += episodes.values()
        sessions = {queue.session_of(key) for key in batch.keys}
        if self.settings.fewest_samples > 1:
            may_be_empty = verl.parameter_sync_step > 1 or self._left_out["filtered"] > 0
            batch = queue.without_singletons(batch, may_be_empty=may_be_empty)
            compared = {queue.session_of(key) for key in batch.keys}
            metrics["rollout/singleton_episodes"] = len(sessions) - len(compared)
            sessions = compared
        self._left_out["sampled"] += len(sessions)
        if not sessions:
            self.learner.take(batch, [], metrics)
            return []
        behind = [verl.global_steps - 1 - int(tag["min_global_steps"]) for tag in batch.tags]
        metrics |= {"rollout/staleness": fmean(behind), "rollout/staleness_max": max(behind)}
        metrics["rollout/segments_per_episode"] = len(batch) / len(sessions)
        rollouts = queue.rollouts_of(batch, episodes)
        self.learner.take(batch, rollouts, metrics)
        return rollouts

    def _groups(self, size: int) -> tuple[KVBatchMeta, dict[str, Episode]]:
        """The next groups, and all episodes that were sampled for them, those of filtered groups included.

        Filtered groups are replaced by others until none is left or the step's refills are spent. What replaces them
        follows from seed, step and redraw; in the asynchronous modes, tasks under way may take their place.
        """
        several = self.verl.parameter_sync_step > 1  # others of the step may have what this part has not
        with self.verl.replay_buffer.refilling() if several else nullcontext():
            batch, episodes = self.next(size)
        count = self._left_out
        while leaving := self._filtered(batch, episodes):
            batch = queue.without_groups(batch, leaving)
            again = min(len(leaving), self._refills - count["refilled"])
            count.update(filtered=len(leaving), refilled=again)
            if again:
                self.redraw(again)
                with self.verl.replay_buffer.refilling():
                    more, others = self.next(again)
                batch, episodes = KVBatchMeta.concat([batch, more]), episodes | others
        return batch, episodes

    def _filtered(self, batch: KVBatchMeta, episodes: Mapping[str, Episode]) -> set[str]:
        """The groups that leave; a singleton group is none of them."""
        if self._keep is None:
            return set()
        rollouts = queue.rollouts_of(batch, episodes)
        return {group[0].group for group in groups(rollouts) if len(group) > 1 and not self._keep(group)}

    def next(self, size: int) -> tuple[KVBatchMeta, dict[str, Episode]]:
        """The next ``size`` groups of the buffer, and their episodes."""
        buffer = self.verl.replay_buffer
        batch, metrics = buffer.sample(global_steps=self.verl.global_steps, partition_id="train", batch_size=size)
        self.learner.metrics.add_step_metrics(metrics)
        return batch, buffer.take_episodes()

    def redraw(self, tasks: int) -> None:
        """Replace groups that the buffer gave up or the filter left out, in the step that asks."""
        assert self._rows is not None, "a training step needs rows"
        self._redraws += 1
        self.submit(self._rows(self._number, self._redraws, tasks), self.verl.global_steps)


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)
