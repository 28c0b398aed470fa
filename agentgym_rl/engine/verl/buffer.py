"""verl's replay buffer with episodes: ``trainer.v1.sampler.custom_sampler``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.verl.rows import NothingToLearn, episodes_of_rows, prompt_of, read_episodes, session_of


class EpisodeBuffer(ReplayBuffer):  # type: ignore[misc]
    """Episodes that failed outside the agent leave the batch; ``take_episodes`` has all that were asked for, to count.

    They never reach loss, group statistics or success rates, and need no rows. Episodes are read while others still
    run, so that few are left to read when the last one ends. Rows are listed when a batch is asked for and when it is
    complete; a look between asks for nothing but the status of the prompts that had not ended.
    """

    poll_s = 0.02
    """Least pause between looks at the TransferQueue, in seconds; verl's own is 2 s, most of a small model's step."""
    longest_poll_s = 1.0
    """Longest pause."""
    looks = 0.01
    """Share of the time that this process computes for looks: the pause after one grows with it, but for the first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, poll_interval=self.poll_s, **kwargs)
        self.progress: Callable[[int, int], None] | None = None
        """Called with the number of finished prompts and of all prompts while a batch is awaited."""
        self._episodes: dict[str, Episode] = {}
        self._early: dict[str, Episode] = {}
        """By session, of prompts that are still in the queue."""
        self._exploring = self._may_be_empty = False
        self._waited = self._behind = False
        """Since the last look there was nothing but a pause; and prompts may have ended whose rows are not listed."""

    @contextmanager
    def exploring(self) -> Iterator[None]:
        """Inside, a batch is of any age and may have no episode that counts; leaving drops ``progress``."""
        self._exploring = True
        try:
            with self.refilling():
                yield
        finally:
            self._exploring, self.progress = False, None

    @contextmanager
    def refilling(self) -> Iterator[None]:
        """Inside, a batch may have no episode that counts."""
        self._may_be_empty = True
        try:
            yield
        finally:
            self._may_be_empty = False

    def take_episodes(self) -> dict[str, Episode]:
        """Episodes of the batches sampled since the last call by session, failed ones included."""
        episodes, self._episodes = self._episodes, {}
        return episodes

    def _sync_metadata_from_transfer_queue(self) -> None:
        begun, waited, self._waited = time.process_time(), self._waited, False
        self._behind = waited and self._statuses()
        if not self._behind:
            super()._sync_metadata_from_transfer_queue()
        pause = (time.process_time() - begun) * (1 / self.looks - 1) if waited else self.poll_s
        self.poll_interval = max(self.poll_s, min(self.longest_poll_s, pause))

    def _statuses(self) -> bool:
        """Ask how the prompts stand that had not ended; False if there are none, or one of them is gone."""
        by_status = {
            "pending": self.pending_keys, "running": self.running_keys, "finished": self.finished_keys,
            "failure": self.failure_keys,
        }  # fmt: skip
        asked = False
        for partition_id in {*self.pending_keys, *self.running_keys}:
            if not (keys := [*self.pending_keys[partition_id], *self.running_keys[partition_id]]):
                continue
            tags = tq.get_client().kv_retrieve_meta(keys=keys, partition_id=partition_id).custom_meta
            if len(tags) < len(keys):
                return False
            self.pending_keys[partition_id], self.running_keys[partition_id], asked = set(), set(), True
            for key, tag in zip(keys, tags, strict=True):
                by_status[tag["status"]][partition_id].add(key)
        return asked

    def _list_rows(self) -> None:
        """List the rows too of what has ended since they were listed."""
        if self._behind:
            self._sync_metadata_from_transfer_queue()

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        """Of tasks of the same step those that were asked for first: verl's own order is that of a set."""
        self._list_rows()
        selected: tuple[list[str], dict[str, dict[str, Any]], dict[str, int]] = super()._select_prompt_uids(
            partition_id, sorted(sampleable_keys), batch_size
        )
        return selected

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        self._read(partition_id, self.finished_keys[partition_id])
        if self.progress is not None:
            finished = len(self.finished_keys[partition_id]) + len(self.failure_keys[partition_id])
            waiting = len(self.pending_keys[partition_id]) + len(self.running_keys[partition_id])
            self.progress(finished, finished + waiting)
        debug_time = float(super()._wait_for_next_poll(partition_id, last_debug_time))
        self._waited = True
        return debug_time

    def _read(self, partition_id: str, prompts: Iterable[str]) -> None:
        """Read the episodes of these prompts, unless that was done before."""
        if new := [prompt for prompt in prompts if f"{prompt}_0" not in self._early]:
            self._early |= read_episodes(new, partition_id)

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        self._list_rows()
        super()._clear_groups(partition_id, uids)
        self._early = {key: episode for key, episode in self._early.items() if prompt_of(key) not in uids}

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict[str, Any]]
    ) -> KVBatchMeta:
        self._read(partition_id, self.finished_keys[partition_id].intersection(selected_prompt_uids))
        batch = super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
        chosen = set(selected_prompt_uids)
        sessions = [*map(session_of, batch.keys), *(key for key in self._early if prompt_of(key) in chosen)]
        episodes = {session: self._early.pop(session) for session in dict.fromkeys(sessions)}
        self._episodes |= episodes
        failed = {session: episode for session, episode in episodes.items() if not episode.ending.counts}
        if failed and len(failed) == len(episodes) and partition_id != "val" and not self._may_be_empty:
            last = list(failed.values())[-1].error
            raise NothingToLearn(f"all {len(failed)} episodes of this step failed outside the agent; the last: {last}")
        failed_keys = [key for key in batch.keys if session_of(key) in failed]
        if not failed_keys:
            return batch
        tq.kv_clear(keys=failed_keys, partition_id=partition_id)
        rest = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if session_of(key) not in failed]
        return KVBatchMeta(partition_id=partition_id, keys=[key for key, _ in rest], tags=[tag for _, tag in rest])


class AsyncEpisodeBuffer(EpisodeBuffer, ReplayBufferAsync):  # type: ignore[misc]
    """For the asynchronous modes: verl's rules on late groups, for training batches."""

    def _stale_terminal_keys(self, global_steps: int, partition_id: str) -> set[str]:
        stale: set[str] = set() if self._exploring else super()._stale_terminal_keys(global_steps, partition_id)
        return stale

    def _has_enough_samples(
        self, global_steps: int, partition_id: str, batch_size: int, sampleable_keys: set[str]
    ) -> bool:
        if self._exploring:
            return len(sampleable_keys) >= batch_size
        return bool(super()._has_enough_samples(global_steps, partition_id, batch_size, sampleable_keys))


class StockLoopBuffer(EpisodeBuffer):
    """The buffer for verl's own entry point, whose agent loops leave the episodes in the rows."""

    def _statuses(self) -> bool:
        return False  # episodes are read out of rows, which every look lists

    def _read(self, partition_id: str, prompts: Iterable[str]) -> None:
        unread = {prompt for prompt in prompts if f"{prompt}_0" not in self._early}
        if keys := [key for key in self.partitions[partition_id] if prompt_of(session_of(key)) in unread]:
            self._early |= episodes_of_rows(keys, partition_id)
