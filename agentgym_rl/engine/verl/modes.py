"""How rollouts and updates share time and machines: verl's three trainers with our phases."""

from __future__ import annotations

import ray
from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.rollout.llm_server import LLMServerManager

from agentgym_rl.engine.verl.by_rows import ByRows
from agentgym_rl.engine.verl.trainer import AgentTrainer
from agentgym_rl.engine.verl.weights import PausedServers, SeparateServers, Servers
from agentgym_rl.rollout.client import EpisodeClient


class SyncTrainer(AgentTrainer, PPOTrainerSync, ByRows):  # type: ignore[misc]
    """Roll out a batch, learn from it, synchronise the weights."""

    samples_present = True

    def _setup(self) -> None:
        """verl's, without its load balancer: nothing calls it, and its process would import vLLM in the first step."""
        super()._setup()
        end_balancer(self.llm_server_manager)

    def get_llm_client(self) -> EpisodeClient:
        return client_of(self.config, self.llm_server_manager)


def end_balancer(servers: LLMServerManager) -> None:
    """End the load balancer of vLLM servers."""
    ray.kill(servers.global_load_balancer)


def client_of(config: DictConfig, servers: LLMServerManager) -> EpisodeClient:
    """A client that spreads episodes over vLLM servers by itself."""
    return EpisodeClient(config, dict(zip(servers.server_addresses, servers.server_handles, strict=True)))


class ColocateTrainer(AgentTrainer, PPOTrainerColocateAsync, ByRows):  # type: ignore[misc]
    """The next batches are under way when one is full: they stop for the update and go on with the new weights."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config, ahead=int(config.trainer.v1.colocate_async.num_warmup_batches))

    def servers(self) -> Servers:
        return PausedServers(self.checkpoint_manager, self.llm_server_manager.server_handles)


class SeparateTrainer(AgentTrainer, PPOTrainerSeparateAsync, ByRows):  # type: ignore[misc]
    """vLLM servers on machines of their own roll out while the workers learn; they stop only to take new weights."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config, ahead=int(config.trainer.v1.separate_async.num_warmup_batches))

    def servers(self) -> Servers:
        return SeparateServers(self.standalone_checkpoint_manager, self.standalone_server_manager.server_handles)


TRAINERS: dict[str, type[AgentTrainer]] = {
    "sync": SyncTrainer,
    "colocate_async": ColocateTrainer,
    "separate_async": SeparateTrainer,
}
"""By ``engine.mode``."""
