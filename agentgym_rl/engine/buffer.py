"""verl's replay buffer, minding episodes: ``trainer.v1.sampler.custom_sampler``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from agentgym_rl.data.episode import Episode


class NothingToLearn(RuntimeError):
    """Every episode of a batch failed for reasons outside the agent."""


class EpisodeBuffer(ReplayBuffer):  # type: ignore[misc]
    """Hands over episodes with their tokens; those that say nothing about the agent are left out of the batch.

    So they never reach loss, group statistics or success rates. ``take_episodes`` yields all of them, for counting.
    """

    poll_s = 0.02
    """Pause between looks at the TransferQueue, in seconds; verl's own is 2 s, most of a small model's step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, poll_interval=self.poll_s, **kwargs)
        self.progress: Callable[[int, int], None] | None = None
        """Told of the prompts finished and of all prompts while a batch is waited for."""
        self._episodes: list[Episode] = []
        self._may_be_empty = False

    @contextmanager
    def exploring(self) -> Iterator[None]:
        """Batches taken inside may have no episode that counts; ends with no progress to report to."""
        self._may_be_empty = True
        try:
            yield
        finally:
            self._may_be_empty = False
            self.progress = None

    def take_episodes(self) -> list[Episode]:
        """Episodes of the batches sampled since the last call, failed ones included."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        if self.progress is not None:
            finished = len(self.finished_keys[partition_id]) + len(self.failure_keys[partition_id])
            waiting = len(self.pending_keys[partition_id]) + len(self.running_keys[partition_id])
            self.progress(finished, finished + waiting)
        return float(super()._wait_for_next_poll(partition_id, last_debug_time))

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict[str, Any]]
    ) -> KVBatchMeta:
        batch = super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
        data = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=["extra_fields"])
        fields = [getattr(value, "data", value) for value in data["extra_fields"]]
        episodes = [Episode.from_dict(field["episode"]) for field in fields]
        self._episodes += episodes
        failed = [key for key, episode in zip(batch.keys, episodes, strict=True) if not episode.ending.counts]
        if not failed:
            return batch
        if len(failed) == len(batch.keys) and partition_id != "val" and not self._may_be_empty:
            raise NothingToLearn(
                f"all {len(failed)} episodes of this step failed outside the agent; the last: {episodes[-1].error}"
            )
        tq.kv_clear(keys=failed, partition_id=partition_id)
        kept = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if key not in set(failed)]
        return KVBatchMeta(partition_id=partition_id, keys=[key for key, _ in kept], tags=[tag for _, tag in kept])
