"""The updates of a run: of rows whose tokens are in verl's queue, and of rows that have their tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.utils import MetricsAggregator
from verl.utils import tensordict_utils as tu
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.workers.utils.padding import response_from_nested

from agentgym_rl.algorithms.base import Metrics, Rollout
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.model import POLICY, REFERENCE
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.rows import Row, WithEngine, streams_of
from agentgym_rl.engine.verl import fields
from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.mapping import ESTIMATOR, renamed
from agentgym_rl.engine.verl.scorer import Scorer
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.updates import Progress, dealt, nested, order, row_batch, row_loss
from agentgym_rl.engine.verl.weights import Weights

PART_S = 10.0
"""Seconds of updates after which progress is shown again."""
ESTIMATED = {"advantage", "turn"}
"""Streams that rows need not have: verl's estimator can give the first, and turns are counted."""


class StepMetrics(MetricsAggregator):  # type: ignore[misc]
    """verl's of the batches of a step, but counts add up, and ``seq_sum`` in a name is what verl calls a correction."""

    def _init_aggregation_rules(self) -> dict[str, list[str]]:
        rules: dict[str, list[str]] = super()._init_aggregation_rules()
        return rules | {"sum": [*rules["sum"], "batch/updates", "rollout/singleton_episodes"]}

    def _get_aggregation_type(self, metric_name: str) -> str:
        return str(super()._get_aggregation_type(metric_name.replace("seq_sum_", "seq_")))


class Learner:
    """Updates the weights on the training workers."""

    def __init__(self, verl: Any, settings: Settings, weights: Weights) -> None:
        """
        Args:
            verl: verl's trainer, for the passes of its workers over a batch of the queue.
        """
        self.verl, self.settings, self.weights = verl, settings, weights
        self.scorer = Scorer(verl, settings, weights)
        self._batch: KVBatchMeta | None = None
        """Rows that were taken and not yet learned from."""
        self._learned: KVBatchMeta | None = None
        """The part of it that was learned from."""
        self.metrics = StepMetrics()
        """Of the present training step."""
        self.optimizer = OptimizerConfig()
        """Settings of the present stage's updates."""
        self.loss: Loss[Any] | None = None
        """The loss that the workers have; at first verl's."""
        self.update_of: dict[str, int] = {}
        """By key of a row; see :func:`agentgym_rl.engine.verl.rows.arrange`."""

    def learn(
        self,
        rows: Sequence[Row],
        loss: Loss[Any],
        *,
        lr: float,
        mini_batch: int,
        epochs: int = 1,
        updates: int | None = None,
        seed: str = "",
        first_epoch: int = 0,
        model: str = POLICY,
        progress: Progress = lambda done, total: None,
    ) -> tuple[Metrics, int]:
        """See :meth:`agentgym_rl.algorithms.base.Run.learn`; returns how many optimizer steps the model took, too."""
        if not rows:
            return {f"{loss.label}/updates": 0.0}, 0
        streams = streams_of(rows)
        if missing := loss.streams - streams - ESTIMATED:
            raise ValueError(f"{type(loss).__name__} reads {', '.join(sorted(missing))}, which the rows do not have")
        if "advantage" in loss.streams - streams and not self._estimates(rows[0]):
            raise ValueError("rows have no advantages, which are left to verl only where Algorithm.needs says so")
        self.settings.set_loss(loss, epochs)
        if isinstance(rows[0].segment, str):
            if model == POLICY:
                return self._learn_batch({str(row.segment): row for row in rows}, streams, loss, lr, mini_batch)
            rows = self._with_tokens(rows)
        passes = [f"{seed}:{epoch}" for epoch in range(first_epoch, first_epoch + epochs)]
        self.weights.sleep()
        name = "update_actor" if model == POLICY else "update_models"
        with marked_timer(name, self.verl.timing_raw), self.weights.using(model, learn=True):
            return self._learn_tokens(rows, loss, lr, mini_batch, passes, updates, progress)

    def score(
        self, rows: Sequence[Row], by: str | Path | None, name: str, *, entropy: bool = False, read: bool = False
    ) -> list[Row]:
        """See :meth:`agentgym_rl.algorithms.base.Run.score`; for ``by`` :meth:`.weights.Weights.using`."""
        if not rows:
            return []
        if name in {*fields.FIELDS, *streams_of(rows)}:
            raise ValueError(f"scores cannot be the stream {name!r}, which has a meaning or is there already")
        with marked_timer("score", self.verl.timing_raw):
            if not isinstance(rows[0].segment, str):
                self.weights.sleep()
                return self.scorer.of_tokens(rows, by, name, entropy=entropy)
            batch = self._taken({str(row.segment) for row in rows}, "scored before they are learned from and")
            return self.scorer.of_batch(batch, rows, by, name, entropy=entropy, read=read)

    def _estimates(self, row: Row) -> bool:
        """True if verl gives such rows advantages."""
        return isinstance(row.segment, str) and self.settings.config.algorithm.adv_estimator != ESTIMATOR

    # rows whose tokens stay in the queue

    def _taken(self, keys: Set[str], how: str) -> KVBatchMeta:
        """The present batch, which must have these rows.

        Raises:
            ValueError: it has not; ``how`` says what is done with them in time.
        """
        if self._batch is None or not keys <= set(self._batch.keys):
            raise ValueError(f"rows of a batch are {how} before the next batch is asked for")
        return self._batch

    def _with_tokens(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of the present batch, with their tokens.

        Raises:
            ValueError: it has not all of them; or a stream's numbers are with the engine, which has them elsewhere.
        """
        for name, stream in rows[0].streams.items():
            if isinstance(stream, WithEngine):
                raise ValueError(f"another model than the policy learns from scores that were read; score {name!r} so")
        keys = {str(row.segment): None for row in rows}
        batch = self._taken(keys.keys(), "learned from by another model before the policy learns from them and")
        tokens = dict(zip(keys, queue.examples_of([*keys], batch.partition_id), strict=True))
        return [replace(row, segment=tokens[str(row.segment)]) for row in rows]

    def begin_step(self) -> None:
        """A training step begins."""
        self.metrics = StepMetrics()

    def take(self, batch: KVBatchMeta, rollouts: Sequence[Rollout], metrics: dict[str, Any]) -> None:
        """Take the next batch to learn from; with a critic, its rollouts get values.

        Args:
            metrics: of how it was sampled.
        """
        if rollouts and self.verl.use_critic:
            batch = self.balance(batch, metrics, self.settings.mini_batch)
            with marked_timer("values", self.verl.timing_raw):
                batch = self.verl._compute_values(batch, metrics)
            fields.turn_values(batch, rollouts)
        self.metrics.add_step_metrics(metrics, sample_count=len(batch))
        self._batch, self._learned = batch, None

    def give_up(self) -> KVBatchMeta | None:
        """The batch that was taken, as far as it was learned from; other rows are cleared."""
        if self._batch is not None:
            queue.only(self._batch, ())
        learned, self._batch, self._learned = self._learned, None, None
        return learned

    def _learn_batch(
        self, rows: Mapping[str, Row], streams: frozenset[str], loss: Loss[Any], lr: float, mini_batch: int
    ) -> tuple[Metrics, int]:
        verl, timing = self.verl, self.verl.timing_raw
        metrics: dict[str, Any] = {}
        batch = self._present(rows, loss, mini_batch, metrics)
        self.weights.sleep()
        actor, algorithm = self.settings.actor, self.settings.config.algorithm
        self._set_loss(loss)
        self._set_optimizer(lr)
        learns = self.settings.learns(verl.global_steps)
        on_policy = learns and self.on_policy()
        if not on_policy:
            with marked_timer("old_log_prob", timing):
                batch = verl._compute_old_log_prob(batch, metrics)
        if loss.config.kl:
            with marked_timer("ref", timing):
                self.scorer.write(batch, REFERENCE, "ref_log_prob")
        with marked_timer("adv", timing):
            if "reward" in streams:
                fields.write_rewards(batch, rows)
            if "advantage" in loss.streams - streams:
                batch = verl._compute_advantage(batch, metrics)
            longest = int(self.settings.config.data.max_response_length)
            batch = fields.write(batch, rows, loss, self.update_of, longest)
        if verl.use_critic:
            with marked_timer("update_critic", timing):
                batch = self._critic_step(batch, metrics, with_returns="return" in streams)
        batch.extra_info.update(return_model_output=on_policy, entropy_is_logged=on_policy)
        with ThreadPoolExecutor(1, "metrics") as pool:  # beside the update, for which the driver only waits
            beside = [pool.submit(fields.advantage_metrics, batch, rows)]
            if not on_policy and not algorithm.rollout_correction.bypass_mode:
                beside.append(pool.submit(queue.ratio_metrics, batch))
            if learns:
                with marked_timer("update_actor", timing):
                    batch = verl._update_actor(batch, metrics)
        for future in beside:
            metrics |= future.result()
        if on_policy:
            with marked_timer("old_log_prob", timing):
                batch.extra_info["of_update"] = True
                batch = verl._compute_old_log_prob(batch, metrics)
            metrics |= queue.ratio_metrics(batch)
        real = sum(not tag.get("is_padding", False) for tag in batch.tags)
        self.metrics.add_step_metrics(metrics, sample_count=real)
        self._batch, self._learned = None, batch
        updates = len(batch) // int(actor.ppo_mini_batch_size) * int(actor.ppo_epochs) if learns else 0
        return {renamed(name): float(value) for name, value in metrics.items()}, updates

    def _present(
        self, rows: Mapping[str, Row], loss: Loss[Any], mini_batch: int, metrics: dict[str, Any]
    ) -> KVBatchMeta:
        """The batch with these rows, in the order of its updates.

        Raises:
            ValueError: it cannot be learned from like this.
        """
        batch = self._taken(rows.keys(), "learned from once,")
        if loss.rows_together > 1:
            raise ValueError(f"{type(loss).__name__} compares rows, and needs those of Run.rollouts, with their tokens")
        if loss.config.kl and REFERENCE not in self.weights.models:
            raise ValueError("a KL loss needs a reference policy, which Algorithm.needs names")
        if not self.verl.use_critic:
            return self.balance(queue.only(batch, rows.keys()), metrics, mini_batch)
        left_out = [tag for key, tag in zip(batch.keys, batch.tags, strict=True) if key not in rows]
        if not all(tag.get("is_padding", False) for tag in left_out):
            raise ValueError("an algorithm with a critic learns from every rollout of a batch")
        if mini_batch != self.settings.mini_batch:
            raise ValueError(
                f"with a critic, an update takes algorithm.mini_batch_tasks={self.settings.mini_batch} tasks, and "
                f"{mini_batch} were asked for"
            )
        return batch

    def on_policy(self) -> bool:
        """True if one update learns from the present batch, with the weights that sampled it.

        Then the old log-probabilities are those that the update itself computes, and no pass of its own is spent on
        them. On a GPU it is, because verl's update would keep a gradient for the entropy, which is only logged.
        """
        config = self.settings.config
        correction = config.algorithm.rollout_correction
        corrected = correction.bypass_mode or correction.rollout_is or correction.rollout_rs
        once = self.settings.actor.ppo_epochs == 1 and not any(self.update_of.values())
        return self.verl.samples_present and once and not corrected and config.trainer.device == "cpu"

    def _critic_step(self, batch: KVBatchMeta, metrics: dict[str, Any], *, with_returns: bool) -> KVBatchMeta:
        """The critic's update; ``with_returns`` where the rows have what it learns."""
        if not with_returns:
            return self.verl._update_critic(batch, metrics)
        with fields.critic_learns_where_told(batch):
            return self.verl._update_critic(batch, metrics)

    def balance(self, batch: KVBatchMeta, metrics: dict[str, Any], mini_batch: int) -> KVBatchMeta:
        """Updates of whole groups, about ``mini_batch`` groups each, padded to the same number of rows."""
        verl, workers = self.verl, self.verl.resource_pool_manager.get_n_gpus()
        seed = f"{self.settings.config.data.seed}:{verl.global_steps}:{verl.local_trigger_step}"
        shares = queue.share_out(batch, mini_batch, seed)
        size = -(-max(map(len, shares)) // workers) * workers
        self.settings.set_update_size(size)
        batch = upsample_batch_to_divisible_size(batch, size * len(shares), verl.tokenizer.eos_token_id)
        self.update_of = queue.arrange(batch, shares, self.settings.ranks)
        metrics["batch/updates"], metrics["batch/rows_per_update"] = len(shares), size
        return batch

    # rows that have their tokens

    def _learn_tokens(
        self,
        rows: Sequence[Row],
        loss: Loss[Any],
        lr: float,
        mini_batch: int,
        passes: Sequence[str],
        updates: int | None,
        progress: Progress,
    ) -> tuple[Metrics, int]:
        """The workers are given one update, then twice as many each time until these take :data:`PART_S`.

        Args:
            mini_batch: rows of an update, or groups of :attr:`.Loss.rows_together`; every rank takes an equal share.
            passes: the seed of each.
        """
        together, ranks = loss.rows_together, self.settings.ranks
        if len(rows) % together:
            raise ValueError(f"{type(loss).__name__} compares {together} rows, and has {len(rows)}")
        if loss.config.kl:
            raise ValueError("a KL loss needs rows of a batch")
        size = -(-mini_batch // ranks) * ranks
        old = self._old_log_probs(rows, loss, size * together) if loss.relative else None
        self._set_loss(loss)
        self._set_optimizer(lr)
        groups = [place for seed in passes for place in order(len(rows) // together, size, seed, updates)]
        places = [group * together + member for group in groups for member in range(together)]
        total, done, part = len(groups) // size, 0, 1
        sums: dict[str, float] = {}
        while done < total:
            begun, end = time.monotonic(), min(done + part, total)
            of_part = places[done * size * together : end * size * together]
            chosen = [of_part[at] for at in dealt(len(of_part), size * together, ranks)]
            data = self._data([rows[place] for place in chosen], loss, size * together)
            if old is not None:
                data["old_log_probs"] = nested([old[place] for place in chosen])
            output = reduce_metrics(dict(self.verl.actor_rollout_wg.update_actor(data)["metrics"]))
            for name in ("loss", "grad_norm", *(name for name in output if name.startswith(f"{loss.label}/"))):
                sums[name] = sums.get(name, 0.0) + float(output[name]) * (end - done) / total
            done = end
            progress(done, total)
            part *= 2 if time.monotonic() - begun < PART_S else 1
        means = {name if "/" in name else f"{loss.label}/{name}": value for name, value in sums.items()}
        return means | {f"{loss.label}/lr": lr, f"{loss.label}/updates": float(total)}, total

    def _data(self, rows: Sequence[Row], loss: Loss[Any], size: int) -> TensorDict:
        temperature = self.settings.temperature if loss.temperature is None else loss.temperature
        longest = int(self.settings.config.data.max_response_length)
        return row_batch(rows, loss, size, temperature, longest, self.settings.ranks)

    def _old_log_probs(self, rows: Sequence[Row], loss: Loss[Any], size: int) -> list[torch.Tensor]:
        """Of each row, [tokens after the first]: log-probabilities of the present policy."""
        filled = [rows[place % len(rows)] for place in range(-(-len(rows) // size) * size)]
        data = self._data(filled, loss, size)
        tu.assign_non_tensor(data, compute_loss=False)
        output = self.verl.actor_rollout_wg.compute_log_prob(data)
        return [*response_from_nested(output["log_probs"], data["response_mask"]).unbind()][: len(rows)]

    def _set_loss(self, loss: Loss[Any]) -> None:
        """The workers keep one loss; change it only when an update has another."""
        self.weights.pristine = False
        if loss == self.loss:
            return
        self.verl.actor_rollout_wg.set_loss_fn(partial(row_loss, loss=loss))
        self.loss = loss

    def _set_optimizer(self, lr: float) -> None:
        """Each update has its own settings, because a checkpoint brings back those that it was saved with."""
        chosen = self.optimizer
        self.verl.actor_rollout_wg.set_optimizer(lr, chosen.weight_decay, tuple(chosen.betas), chosen.clip_grad)
