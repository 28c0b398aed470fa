"""Weights from training workers to vLLM servers on other machines over gloo: verl's checkpoint engine ``gloo``.

For CPUs, where ``engine.mode=separate_async`` has no NCCL. Actor rank 0 broadcasts every tensor to all rollout workers.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from typing import Any

import ray
import torch
import torch.distributed as dist
from verl.checkpoint_engine import CheckpointEngine, CheckpointEngineRegistry

Address = tuple[str, int]
TIMEOUT = timedelta(minutes=10)


@CheckpointEngineRegistry.register("gloo")
class GlooWeights(CheckpointEngine):  # type: ignore[misc]
    """One end of a transfer; the group lives for one transfer, so that servers may come and go in between."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        """
        Args:
            bucket_size: unused; tensors travel one by one.
            is_master: this is actor rank 0, which sends.
        """
        self.is_master = is_master
        self._store: Any = None
        self._group: dist.ProcessGroupGloo | None = None

    def prepare(self) -> Address | None:
        """Where the group meets, on the sender."""
        if not self.is_master:
            return None
        host = ray.util.get_node_ip_address()
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)  # type: ignore[attr-defined]
        self._store = store
        return host, store.port

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: Sequence[Address | None]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Actor rank 0 is rank 0, rollout workers follow; other actors (rank -1) take no part."""
        size = 1 + rollout_world_size

        def arguments(ranks: list[int]) -> dict[str, list[Any]]:
            return {"rank": ranks, "world_size": [size] * len(ranks), "address": [metadata[0]] * len(ranks)}

        return arguments([0] + [-1] * (actor_wg_world_size - 1)), arguments(list(range(1, size)))

    def init_process_group(self, rank: int, world_size: int, address: Address) -> None:
        """Join the group."""
        if rank < 0:
            return
        store = self._store or dist.TCPStore(*address, is_master=False, timeout=TIMEOUT)  # type: ignore[attr-defined]
        self._store = store
        self._group = dist.ProcessGroupGloo(store, rank, world_size, TIMEOUT)

    def finalize(self) -> None:
        """Leave it."""
        self._group = self._store = None

    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, float]:
        """Send all tensors. Every actor walks through them: gathering each from its shards takes all of them."""
        for name, weight in weights:
            if self._group is not None:
                tensor = weight.detach().cpu().contiguous()
                self._send((name, tensor.shape, tensor.dtype))
                self._broadcast(tensor.view(-1).view(torch.uint8))
        if self._group is not None:
            self._send(None)
        return {}

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """The tensors as they come."""
        while (head := self._receive()) is not None:
            name, shape, kind = head
            tensor = torch.empty(shape, dtype=kind)
            self._broadcast(tensor.view(-1).view(torch.uint8))
            yield name, tensor

    def _send(self, value: Any) -> None:
        data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        self._broadcast(torch.tensor([len(data)]))
        self._broadcast(data)

    def _receive(self) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        self._broadcast(size)
        data = torch.empty(int(size), dtype=torch.uint8)
        self._broadcast(data)
        return pickle.loads(data.numpy().tobytes())

    def _broadcast(self, tensor: torch.Tensor) -> None:
        assert self._group is not None, "the group was not joined"
        options = dist.BroadcastOptions()
        options.rootRank = 0
        self._group.broadcast([tensor], options).wait()  # type: ignore[attr-defined]
