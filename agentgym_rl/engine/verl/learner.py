"""The updates of a run: of a policy gradient, on the tokens of demonstrations, and on pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import fmean
from typing import Any

import torch
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.utils import MetricsAggregator
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics

from agentgym_rl.algorithms.base import Metrics, Policy, Preference, Rollout, Supervised
from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.algorithms.losses.base import Loss, LossConfig
from agentgym_rl.algorithms.losses.cross_entropy import CrossEntropy
from agentgym_rl.algorithms.losses.dpo import episode_log_probs
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import (
    Pair,
    Progress,
    dpo_loss,
    order,
    pair_batch,
    policy_loss,
    supervised_loss,
    to_batch,
)
from agentgym_rl.engine.verl.weights import PRESENT, REFERENCE, Weights

PART_S = 10.0
"""Seconds of supervised updates after which progress is shown again."""
PREFERENCE = ("dpo/margin", "dpo/accuracy")
"""Metrics of the preference loss."""


class Learner:
    """Updates the weights on the training workers."""

    def __init__(self, verl: Any, settings: Settings, weights: Weights) -> None:
        """
        Args:
            verl: verl's trainer, for the passes of its workers over a batch of the queue.
        """
        self.verl, self.settings, self.weights = verl, settings, weights
        self.batch: KVBatchMeta | None = None
        """The batch that the next policy step learns from, then what it has learned from."""
        self.metrics: MetricsAggregator = MetricsAggregator()
        """Of the present training step."""
        self.optimizer = OptimizerConfig()
        """Settings of the present stage's updates."""
        self.loss: tuple[Callable[..., Any], Loss[Any] | None] | None = None
        """The loss that the workers have, and the function that computes it; at first verl's."""
        self.update_of: dict[str, int] = {}
        """By key of a row; see :func:`agentgym_rl.engine.verl.rows.arrange`."""

    # policy gradients

    def begin_step(self) -> None:
        """A training step begins."""
        self.metrics = MetricsAggregator()

    def take(self, batch: KVBatchMeta, rollouts: Sequence[Rollout], metrics: dict[str, Any]) -> None:
        """Take the next batch to learn from; with a critic, its rollouts get values.

        Args:
            metrics: of how it was sampled.
        """
        if rollouts and self.verl.use_critic:
            batch = self.balance(batch, metrics)
            with marked_timer("values", self.verl.timing_raw):
                batch = self.verl._compute_values(batch, metrics)
            queue.turn_values(batch, rollouts)
        self.metrics.add_step_metrics(metrics, sample_count=len(batch))
        self.batch = batch

    def policy_step(self, update: Policy, lr: float) -> int:
        """The policy update of the present batch; returns how many optimizer steps the policy took.

        Raises:
            ValueError: with a critic, a rollout is left out.
        """
        assert self.batch is not None, "a batch takes one policy update"
        verl, batch, timing = self.verl, self.batch, self.verl.timing_raw
        metrics: dict[str, Any] = {}
        kept = {rollout.key for rollout in update.rollouts}
        left_out = {queue.session_of(key) for key in batch.keys} - kept
        if not kept:
            queue.only(batch, kept)
            self.batch = None
            return 0
        actor = self.settings.actor
        if not verl.use_critic:
            batch = self.balance(queue.only(batch, kept), metrics)
        elif any(not tag.get("is_padding", False) for tag in _tags_of(batch, left_out)):
            raise ValueError("an algorithm with a critic learns from every rollout of a batch")
        self._set_loss(policy_loss, update.loss)
        self._set_optimizer(lr)
        learns = self.settings.learns(verl.global_steps)
        on_policy = learns and self.on_policy()
        if not on_policy:
            with marked_timer("old_log_prob", timing):
                batch = verl._compute_old_log_prob(batch, metrics)
        if self.settings.with_reference:
            with marked_timer("ref", timing):
                self._ref_log_prob(batch)
        with marked_timer("adv", timing):
            if update.rewards is not None:
                queue.write_rewards(batch, update.rollouts, update.rewards)
            if update.advantages is None:
                batch = verl._compute_advantage(batch, metrics)
            longest = int(self.settings.config.data.max_response_length)
            batch = queue.write(batch, update, self.update_of, Aggregation(actor.loss_agg_mode), longest)
        if verl.use_critic:
            with marked_timer("update_critic", timing):
                batch = self._critic_step(batch, metrics, at_turns=update.returns is not None)
        batch.extra_info.update(return_model_output=on_policy, entropy_is_logged=on_policy)
        with ThreadPoolExecutor(1, "metrics") as pool:  # beside the update, for which the driver only waits
            beside = [pool.submit(queue.advantage_metrics, batch, update.rollouts)]
            if not on_policy and not self.settings.config.algorithm.rollout_correction.bypass_mode:
                beside.append(pool.submit(queue.ratio_metrics, batch))
            if learns:
                with marked_timer("update_actor", timing):
                    batch = verl._update_actor(batch, metrics)
        for found in beside:
            metrics |= found.result()
        if on_policy:
            with marked_timer("old_log_prob", timing):
                batch.extra_info["of_update"] = True
                batch = verl._compute_old_log_prob(batch, metrics)
            metrics |= queue.ratio_metrics(batch)
        real = sum(not tag.get("is_padding", False) for tag in batch.tags)
        self.metrics.add_step_metrics(metrics, sample_count=real)
        self.batch = batch
        return len(batch) // int(actor.ppo_mini_batch_size) * int(actor.ppo_epochs) if learns else 0

    def on_policy(self) -> bool:
        """Whether one update learns from the present batch, with the weights that sampled it.

        Then the old log-probabilities are those that the update itself computes, and no pass of its own is spent on
        them. On a GPU it is, because verl's update would keep a gradient for the entropy, which is only logged.
        """
        config = self.settings.config
        correction = config.algorithm.rollout_correction
        corrected = correction.bypass_mode or correction.rollout_is or correction.rollout_rs
        once = self.settings.actor.ppo_epochs == 1 and not any(self.update_of.values())
        return self.verl.samples_present and once and not corrected and config.trainer.device == "cpu"

    def _ref_log_prob(self, batch: KVBatchMeta) -> None:
        """Log-probabilities of the reference policy, whose weights take the place of the present ones meanwhile."""
        workers = self.verl.actor_rollout_wg
        workers.save_model_to_cpu(PRESENT)
        workers.restore_model_from_cpu(REFERENCE)
        queue.log_probs_of(batch, workers.compute_log_prob, self.settings.temperature)
        workers.restore_model_from_cpu(PRESENT)
        workers.clear_cpu_model(PRESENT)

    def _critic_step(self, batch: KVBatchMeta, metrics: dict[str, Any], *, at_turns: bool) -> KVBatchMeta:
        if not at_turns:
            return self.verl._update_critic(batch, metrics)
        with queue.critic_learns_at_turns(batch):
            return self.verl._update_critic(batch, metrics)

    def balance(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Updates of whole groups, as many groups each as the recipe says, padded to the same number of rows."""
        verl, workers = self.verl, self.verl.resource_pool_manager.get_n_gpus()
        seed = f"{self.settings.config.data.seed}:{verl.global_steps}:{verl.local_trigger_step}"
        shares = queue.share_out(batch, self.settings.mini_batch, seed)
        size = -(-max(map(len, shares)) // workers) * workers
        self.settings.set_update_size(size)
        batch = upsample_batch_to_divisible_size(batch, size * len(shares), verl.tokenizer.eos_token_id)
        self.update_of = queue.arrange(batch, shares, workers)
        metrics["batch/updates"], metrics["batch/rows_per_update"] = len(shares), size
        return batch

    # tokens and pairs

    def sft_step(self, update: Supervised, lr: float, seed: str, progress: Progress) -> tuple[Metrics, int]:
        """Supervised updates; returns metrics, means over the updates, and their number.

        The workers are given one update, then twice as many each time until these take :data:`PART_S`.
        """
        size = update.mini_batch
        chosen = [update.examples[index] for index in order(len(update.examples), size, seed, update.updates)]
        updates, done, part = len(chosen) // size, 0, 1
        if not updates:
            return {"supervised/updates": 0}, 0
        self._set_loss(supervised_loss, CrossEntropy(LossConfig()))
        self.weights.sleep()
        self._set_optimizer(lr)
        loss = grad_norm = 0.0
        while done < updates:
            begun, end = time.monotonic(), min(done + part, updates)
            data = to_batch(chosen[done * size : end * size], size)
            metrics = reduce_metrics(dict(self.verl.actor_rollout_wg.update_actor(data)["metrics"]))
            loss += float(metrics["loss"]) * (end - done) / updates
            grad_norm += float(metrics["grad_norm"]) * (end - done) / updates
            done = end
            progress(done, updates)
            part *= 2 if time.monotonic() - begun < PART_S else 1
        return {
            "supervised/loss": loss,
            "supervised/grad_norm": grad_norm,
            "supervised/lr": lr,
            "supervised/updates": updates,
        }, updates

    def preference_step(self, update: Preference, lr: float, seed: str) -> tuple[Metrics, int]:
        """Preference updates; returns means over all of them and their number."""
        pairs, workers = update.pairs, self.settings.workers
        size = -(-min(update.mini_batch, len(pairs)) // workers) * workers  # every worker takes an equal share
        self.weights.sleep()
        reference = self._reference(pairs, size)
        self._set_loss(dpo_loss)
        self._set_optimizer(lr)
        passes: list[dict[str, float]] = []
        updates = 0
        for epoch in range(update.epochs):
            places = order(len(pairs), size, f"{seed}:{epoch}")
            data = pair_batch([pairs[place] for place in places], size)
            data["ref_log_prob"] = reference[places].flatten()
            tu.assign_non_tensor(data, beta=update.beta)
            passes.append(reduce_metrics(dict(self.verl.actor_rollout_wg.update_actor(data)["metrics"])))
            updates += len(places) // size
        mean = {name: fmean(float(found[name]) for found in passes) for name in ("loss", *PREFERENCE, "grad_norm")}
        metrics = {name: mean[name] for name in PREFERENCE}
        return metrics | {
            "dpo/loss": mean["loss"],
            "dpo/updates": float(updates),
            "actor/grad_norm": mean["grad_norm"],
            "actor/lr": lr,
        }, updates

    def _reference(self, pairs: Sequence[Pair], size: int) -> torch.Tensor:
        """[pairs, 2]: the present policy's log-probabilities of pairs; ``size`` is a multiple of the workers."""
        filled = [pairs[place % len(pairs)] for place in range(-(-len(pairs) // size) * size)]
        data = pair_batch(filled, size)
        tu.assign_non_tensor(data, compute_loss=False)
        output = self.verl.actor_rollout_wg.compute_log_prob(data)
        sums = episode_log_probs(output["log_probs"], data["loss_mask"])
        return sums.view(-1, 2)[: len(pairs)]

    def _set_loss(self, function: Callable[..., Any], loss: Loss[Any] | None = None) -> None:
        """The workers keep one loss; change it only when an update has another."""
        self.weights.pristine = False
        wanted = (function, loss)
        if wanted == self.loss:
            return
        actor = omega_conf_to_dataclass(self.settings.actor)
        chosen = {} if loss is None else {"loss": loss}
        self.verl.actor_rollout_wg.set_loss_fn(partial(function, config=actor, **chosen))
        self.loss = wanted

    def _set_optimizer(self, lr: float) -> None:
        """Each update has its own settings, because a checkpoint brings back those that it was saved with."""
        chosen = self.optimizer
        self.verl.actor_rollout_wg.set_optimizer(lr, chosen.weight_decay, tuple(chosen.betas), chosen.clip_grad)


def _tags_of(batch: KVBatchMeta, sessions: set[str]) -> list[dict[str, Any]]:
    return [tag for key, tag in zip(batch.keys, batch.tags, strict=True) if queue.session_of(key) in sessions]
