"""verl's configuration while a run goes on: the one place that writes it."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from agentgym_rl.algorithms.losses.base import Loss


class Settings:
    """verl's configuration: read by the parts of the trainer, and written for each step."""

    def __init__(self, config: DictConfig) -> None:
        self.take(config)

    def take(self, config: DictConfig) -> None:
        """Go on with another configuration."""
        ours, actor = config.trainer.v1.agentgym, config.actor_rollout_ref.actor
        self.config = config
        self.mini_batch, self.warmup = int(actor.ppo_mini_batch_size), int(config.trainer.critic_warmup)
        self.fewest_samples = int(ours.fewest_samples)
        self.verify_sync = str(ours.verify_sync)
        config.actor_rollout_ref.rollout.n = 1  # each row says its own; so the sizes of updates count rows

    @property
    def actor(self) -> Any:
        return self.config.actor_rollout_ref.actor

    @property
    def temperature(self) -> float:
        """Of training episodes."""
        return float(self.config.actor_rollout_ref.rollout.temperature)

    @property
    def workers(self) -> int:
        """Training workers."""
        return int(self.config.trainer.nnodes * self.config.trainer.n_gpus_per_node)

    @property
    def ranks(self) -> int:
        """Shares that verl deals the rows of a batch in: workers that split sequences take one together."""
        return self.workers // int(self.actor.fsdp_config.ulysses_sequence_parallel_size)

    def begin_step(self, number: int, global_step: int) -> None:
        """verl counts the steps of a critic's warm-up from the first of all, the run from the stage's first."""
        self.config.trainer.critic_warmup = global_step - number + self.warmup

    def learns(self, global_step: int) -> bool:
        """True if the policy learns in a step; False if only the critic does."""
        return bool(self.config.trainer.critic_warmup <= global_step)

    def set_loss(self, loss: Loss[Any], epochs: int) -> None:
        """Write verl's keys of the loss of an update and of the passes over its rows."""
        self.actor.ppo_epochs = self.config.critic.ppo_epochs = epochs
        self.actor.entropy_coeff, self.actor.loss_agg_mode = loss.config.entropy, loss.config.aggregation.value

    def set_update_size(self, rows: int) -> None:
        """Updates have so many rows, padding included."""
        self.actor.ppo_mini_batch_size = self.config.critic.ppo_mini_batch_size = rows
