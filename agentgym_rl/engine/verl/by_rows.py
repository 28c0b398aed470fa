"""verl's trainer without its passes over all tokens: training workers see tokens, the driver numbers of rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.metric_utils import get_metric_data_with_optional_routed_experts
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.drift_metrics import row_metrics
from agentgym_rl.engine.verl.fields import each_token


class ByRows(PPOTrainer):  # type: ignore[misc]
    """Stands between verl's trainer of a mode and their common base, whose methods over tokens it replaces."""

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        correction, rollout = self.config.algorithm.rollout_correction, self.config.actor_rollout_ref.rollout
        if correction.bypass_mode:
            return super()._compute_old_log_prob(batch, metrics)
        settings: Any = OmegaConf.to_container(correction)
        numbers = queue.old_log_probs(batch, self.actor_rollout_wg.compute_log_prob, rollout.temperature, settings)
        actor = self.config.actor_rollout_ref.actor
        longest = actor.loss_scale_factor or max(tag["response_len"] for tag in batch.tags)
        metrics |= row_metrics(numbers, settings, actor.loss_agg_mode, longest)
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's, without its correction, which is the workers'."""
        uncorrected = OmegaConf.merge(self.config, {"algorithm": {"rollout_correction": None}})
        return PPOTrainer._compute_advantage(SimpleNamespace(config=uncorrected), batch, metrics)

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        suffices = in_tags(batch, self.config, self.use_critic)
        data = (lambda **_: queue.metric_rows(batch.tags)) if suffices else metric_data
        trainer_base.get_metric_data_with_optional_routed_experts = data
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)


def in_tags(batch: KVBatchMeta, config: DictConfig, use_critic: bool) -> bool:
    """True if the tags of a batch say all that verl's metrics read of it."""
    experts = config.actor_rollout_ref.rollout.moe_load_balance_metrics_interval > 0
    return not (use_critic or experts) and all("advantage" in tag for tag in batch.tags)


def metric_data(**arguments: Any) -> TensorDict:
    """The numbers of each token that verl's metrics read.

    Advantages are written once a row where they are alike, and returns not at all where they are the advantages.
    """
    data = get_metric_data_with_optional_routed_experts(**arguments)
    data["advantages"] = each_token(data["advantages"], data["response_mask"])
    if "returns" not in data:
        data["returns"] = data["advantages"]
    return data
