"""verl's hybrid worker with a learning rate that can change between stages of a run."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from verl.plugin.platform import get_platform
from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker


class AgentWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """Runs every stage of a run in the same process, on the same weights."""

    _starting: Future[None] | None = None

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
    def set_learning_rate(self, lr: float, fresh_optimizer: bool = False) -> None:
        """Change the policy's learning rate in place; ``fresh_optimizer`` also forgets the optimiser's moments."""
        engine = self.actor.engine
        if fresh_optimizer:
            engine.optimizer.state.clear()
        for group in engine.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = lr
        engine.lr_scheduler.base_lrs = [lr] * len(engine.optimizer.param_groups)
