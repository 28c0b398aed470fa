"""How rollouts and updates share time and machines: verl's three trainers with our phases."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from agentgym_rl.engine.verl.by_rows import ByRows
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.rollout.client import EpisodeClient


class SyncTrainer(AgentTrainer, PPOTrainerSync, ByRows):  # type: ignore[misc]
    """Roll out a batch, learn from it, synchronise the weights."""

    _samples_present = True

    def _setup(self) -> None:
        """verl's, without its load balancer: nothing calls it, and its process would import vLLM in the first step."""
        super()._setup()
        ray.kill(self.llm_server_manager.global_load_balancer)

    def get_llm_client(self) -> EpisodeClient:
        manager = self.llm_server_manager
        return EpisodeClient(self.config, dict(zip(manager.server_addresses, manager.server_handles, strict=True)))


class ColocateTrainer(AgentTrainer, PPOTrainerColocateAsync, ByRows):  # type: ignore[misc]
    """The next batches are under way when one is full: they stop for the update and go on with the new weights."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config, ahead=int(config.trainer.v1.colocate_async.num_warmup_batches))

    def _send_weights(self, step: int) -> None:
        super()._send_weights(step)
        self.checkpoint_manager.resume_generation_replicas()


class SeparateTrainer(AgentTrainer, PPOTrainerSeparateAsync, ByRows):  # type: ignore[misc]
    """vLLM servers on machines of their own roll out while the workers learn; they stop only to take new weights."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config, ahead=int(config.trainer.v1.separate_async.num_warmup_batches))

    @property
    def _servers(self) -> Any:
        return self.standalone_checkpoint_manager

    @property
    def _server_handles(self) -> list[Any]:
        handles: list[Any] = self.standalone_server_manager.server_handles
        return handles

    def sleep(self) -> None:
        """The servers have memory of their own."""
        self._synced = False


TRAINERS: dict[str, type[AgentTrainer]] = {
    "sync": SyncTrainer,
    "colocate_async": ColocateTrainer,
    "separate_async": SeparateTrainer,
}
"""By ``engine.mode``."""
