"""verl's hybrid worker with a learning rate that can change between stages of a run."""

from __future__ import annotations

from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker


class AgentWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """Runs every stage of a run in the same process, on the same weights."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, lr: float, fresh_optimizer: bool = False) -> None:
        """Change the policy's learning rate in place; ``fresh_optimizer`` also forgets the optimiser's moments."""
        engine = self.actor.engine
        if fresh_optimizer:
            engine.optimizer.state.clear()
        for group in engine.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = lr
        engine.lr_scheduler.base_lrs = [lr] * len(engine.optimizer.param_groups)
