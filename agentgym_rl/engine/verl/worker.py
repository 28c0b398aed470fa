"""verl's hybrid worker, with a learning rate and an optimizer that change between the stages of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch.distributed.tensor import DTensor
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.plugin.platform import get_platform
from verl.single_controller.base.decorator import Dispatch, register


class AgentWorker(DetachActorWorker):  # type: ignore[misc]
    """Runs every stage of a run in the same process, on the same weights."""

    _starting: Future[None] | None = None
    _base: dict[str, torch.Tensor] | None = None

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """Build the model. On a CPU in a thread, so that the vLLM server starts beside it; :meth:`ready` waits for it.

        On a GPU one after the other, because vLLM measures the free memory while it starts.
        """
        if get_platform().device_name == "cpu":
            self._starting = ThreadPoolExecutor(1, "init_model").submit(super().init_model)
        else:
            super().init_model()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    async def ready(self) -> None:
        """Return when the model is built, or raise what went wrong."""
        if self._starting is not None:
            await asyncio.wrap_future(self._starting)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_threads(self, threads: int) -> None:
        """Set the number of threads; the environment sets that of every other process of a CPU run."""
        torch.set_num_threads(threads)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset_optimizer(self) -> None:
        """Forget the moments of the policy's optimizer."""
        self.actor.engine.optimizer.state.clear()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_learning_rate(self, lr: float) -> None:
        """Change the policy's learning rate in place."""
        engine = self.actor.engine
        for group in engine.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = lr
        engine.lr_scheduler.base_lrs = [lr] * len(engine.optimizer.param_groups)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def remember_base(self) -> None:
        """Keep this worker's part of the weights in host memory."""
        self._base = {name: local(weight).detach().cpu().clone() for name, weight in self._weights()}

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def restore_base(self) -> None:
        """Put the remembered weights back in place and forget the optimizer's moments."""
        assert self._base is not None, "the weights as loaded were not remembered"
        with torch.no_grad():
            for name, weight in self._weights():
                local(weight).copy_(self._base[name])
        self.actor.engine.optimizer.state.clear()

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self.actor.engine.module.named_parameters()


def local(weight: torch.Tensor) -> torch.Tensor:
    """This worker's part of a weight."""
    return weight.to_local() if isinstance(weight, DTensor) else weight
