"""What verl's trainer does with sampled episodes, and where ours departs: groups, turns, samples of one episode."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from agentgym_rl.engine.verl.advantages import (
    Credit,
    add_steps,
    broadcast,
    by_turn,
    of_episodes,
    value_places,
    without_lone,
)
from agentgym_rl.engine.verl.keys import sample_of


class CreditTrainer(PPOTrainer):  # type: ignore[misc]
    """Group statistics count episodes, whatever the number of samples they are learnt from as."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._minibatch = int(config.actor_rollout_ref.actor.ppo_mini_batch_size)

    @property
    def _credit(self) -> Credit:
        return Credit.from_mapping(self.config.trainer.v1.agentgym)

    def _balance_batch(
        self, batch: Any, metrics: Any, logging_prefix: str = "global_seqlen", keep_minibatch: bool = False
    ) -> Any:
        """The first thing verl does with sampled episodes."""
        behind = [self.global_steps - 1 - int(tag["min_global_steps"]) for tag in batch.tags]
        metrics |= {"rollout/staleness": fmean(behind), "rollout/staleness_max": max(behind)}
        if self._credit.grouped:
            before = len(of_episodes(batch))
            batch = without_lone(batch)
            metrics["rollout/lone_episodes"] = before - len(of_episodes(batch))
        metrics["rollout/samples_per_episode"] = len(batch) / len(of_episodes(batch))
        self._share_updates(len(batch))
        return super()._balance_batch(batch, metrics, logging_prefix, keep_minibatch)

    def _share_updates(self, rows: int) -> None:
        """As many updates as the recipe says, each on an equal part of the rows, however many those are.

        verl counts an update's rows as prompts times episodes a prompt.
        """
        samples, workers = self.config.actor_rollout_ref.rollout.n, self.resource_pool_manager.get_n_gpus()
        prompts = self.config.data.train_batch_size // self.parameter_sync_step
        updates = -(-prompts // self._minibatch)
        size = max(self._minibatch, -(-rows // (updates * samples)))
        while size * samples % workers:
            size += 1
        self.config.actor_rollout_ref.actor.ppo_mini_batch_size = size
        self.config.critic.ppo_mini_batch_size = size

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        credit, algorithm = self._credit, self.config.algorithm
        folded = any(sample_of(key) for key in batch.keys)
        batch = super()._compute_advantage(batch, metrics)
        if folded and credit.grouped and algorithm.adv_estimator != "grpo":  # for GRPO verl does the same itself
            super()._compute_advantage(of_episodes(batch), {})
            broadcast(batch)
        if credit.step_weight:
            metrics |= add_steps(
                batch,
                weight=credit.step_weight,
                gamma=algorithm.gamma,
                by_std=algorithm.norm_adv_by_std_in_grpo,
            )
        if credit.level == "turn":
            by_turn(batch, gamma=algorithm.gamma, lam=algorithm.lam)
        return batch

    def _update_critic(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._credit.level == "token":
            return super()._update_critic(batch, metrics)
        with value_places(batch):
            return super()._update_critic(batch, metrics)
