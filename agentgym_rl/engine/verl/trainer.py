"""verl's trainer, opened up into the phases that a run puts together: rollouts, batches, updates, weights."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.single_controller.ray import RayWorkerGroup
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.utils import MetricsAggregator
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics

from agentgym_rl.algorithms.base import GroupFilter, Metrics, Policy, Preference, Rollout, Supervised
from agentgym_rl.algorithms.losses import episode_log_probs
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.policy_gradient import LossAggregation, PolicyLoss
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.verl import rows as queue
from agentgym_rl.engine.verl.buffer import EpisodeBuffer
from agentgym_rl.engine.verl.mapping import renamed
from agentgym_rl.engine.verl.schedule import Schedule
from agentgym_rl.engine.verl.sync_probe import SyncProbe
from agentgym_rl.engine.verl.updates import LOSSES, Pair, order, pair_batch, to_batch
from agentgym_rl.engine.verl.worker import AgentWorker, CriticWorker
from agentgym_rl.rollout.recorder import Advantages
from agentgym_rl.rollout.supervised import Example, from_rollout

Rows = Callable[[int, int, int | None], list[dict[str, Any]]]
"""The rows of a step (from 0); or, by the other two arguments, of its n-th redraw and how many of them."""
Progress = Callable[[int, int], None]
"""Called with how many are done, and of how many."""

# The workers meet on a port that verl finds free long before they listen on it. Of the ports that the system lends to
# every new connection (32768 and above) another process may have taken it meanwhile.
trainer_base.RayWorkerGroup = partial(RayWorkerGroup, master_port_range=[20_000 + os.getpid() % 10_000, 32_768])


class AgentTrainer(PPOTrainer):  # type: ignore[misc]
    """One set of Ray workers, weights and vLLM servers for every phase of a run.

    :mod:`agentgym_rl.engine.verl.modes` says how rollouts and updates share time and machines.
    """

    replay_buffer: EpisodeBuffer
    _samples_present = False
    """Whether a batch is sampled with the weights that learn from it."""

    def __init__(self, config: DictConfig, ahead: int = 0) -> None:
        """
        Args:
            ahead: steps whose episodes are under way while an earlier one is learned from.
        """
        super().__init__(config)
        self.schedule = Schedule(ahead)
        self.timing_raw: dict[str, float] = {}
        self.curr_step_profile = False
        self._read(config)
        self._rows: Rows | None = None
        self._number = self._redraws = 0
        self._left_out: Counter[str] = Counter()
        """Groups of the present step that were filtered and refilled."""
        self._batch: KVBatchMeta | None = None
        self._metrics: MetricsAggregator = MetricsAggregator()
        self.step_metrics: Metrics = {}
        self.step_episodes: list[Episode] = []
        """All episodes of the present training step, also those that do not count."""
        self._loss = ""
        """The loss that the workers have; at first verl's."""
        self._pristine = True
        self._synced = True
        """Whether the vLLM servers have the present weights."""
        self._sync_metrics: Metrics = {}
        """Of the latest sync that was looked at."""
        self._update_of: dict[str, int] = {}
        """By key of a row; see :func:`agentgym_rl.engine.verl.rows.arrange`."""
        self._critic_base: str | None = None
        self._uids = count()
        """Numbers of prompts, in the order in which they are submitted; it orders rows, whichever finish first."""
        self.optimizer = OptimizerConfig()
        """Settings of the present stage's updates."""

    def _read(self, config: DictConfig) -> None:
        """What the trainer itself changes in its configuration, as it was given."""
        self._mini_batch = int(config.actor_rollout_ref.actor.ppo_mini_batch_size)
        self._warmup = int(config.trainer.critic_warmup)
        self._fewest_samples = int(config.trainer.v1.agentgym.fewest_samples)
        self._with_reference = bool(config.trainer.v1.agentgym.reference)
        self._verify_sync = str(config.trainer.v1.agentgym.verify_sync)
        groups = config.trainer.v1.agentgym.group_filter
        self._group_filter = None if groups is None else GroupFilter(**groups)
        config.actor_rollout_ref.rollout.n = 1  # each row says its own; so the sizes of updates count rows

    # set-up

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.Actor, Role.ActorRollout):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(AgentWorker)
        if Role.Critic in self.role_worker_mapping:
            self.role_worker_mapping[Role.Critic] = ray.remote(CriticWorker)

    def _load_checkpoint(self) -> None:
        """The last call of verl's set-up. The run restores its own state; here the workers must be ready."""
        self.actor_rollout_wg.ready()

    def begin(self, agent_loop_manager: Any) -> None:
        """Take over the agent-loop workers; the weights are already in vLLM."""
        self.agent_loop_manager = agent_loop_manager
        self._probe = SyncProbe.begin(self.tokenizer, self.config.actor_rollout_ref.rollout, self._server_handles)

    def configure(self, config: DictConfig) -> None:
        """Go on with another run's settings on the same workers; :mod:`~agentgym_rl.engine.run.session` says which."""
        self.config = config
        self._read(config)
        self._loss = ""
        if self.use_critic:
            assert self._critic_base is not None, "the critic as loaded was not remembered"
            self.critic_wg.load_checkpoint(local_path=self._critic_base)

    # rollouts

    def rollouts(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        validate: bool,
        progress: Progress | None = None,
        take: Callable[[list[Rollout]], None] | None = None,
        chunk: int | None = None,
    ) -> list[Rollout]:
        """Roll out rows with the current weights.

        Args:
            rows: see :func:`agentgym_rl.engine.verl.dataset.row`.
            validate: keep them apart from training episodes.
            progress: called while episodes run; an exception from it ends the rollouts.
            take: given every ``chunk`` finished rows while others still run.
            chunk: None waits for all.

        Returns:
            All episodes with their tokens, in the order in which they finished; those that failed have none.
        """
        if not self._synced:
            self.sync_weights()
        partition = self._submit(rows, self.global_steps, validate=validate)
        found: list[Rollout] = []
        done = 0
        with self.replay_buffer.exploring():
            while done < len(rows):
                if progress is not None:
                    self.replay_buffer.progress = partial(_shifted, progress, done, len(rows))
                size = min(chunk or len(rows), len(rows) - done)
                finished = self._take_finished(partition, size)
                done += size
                found += finished
                if take is not None:
                    take(finished)
        return found

    def _take_finished(self, partition: str, size: int) -> list[Rollout]:
        """Wait for ``size`` rows to finish and take their episodes and tokens."""
        sampled, _ = self.replay_buffer.sample(global_steps=self.global_steps, partition_id=partition, batch_size=size)
        episodes = self.replay_buffer.take_episodes()
        segments: dict[str, list[Example]] = {session: [] for session in episodes}
        if keys := sorted(sampled.keys, key=queue.segment_of):
            data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=["input_ids", "response_mask"])
            for key, ids, mask in zip(keys, data["input_ids"].unbind(), data["response_mask"].unbind(), strict=True):
                segments[queue.session_of(key)].append(from_rollout(ids.tolist(), mask.tolist()))
            tq.kv_clear(keys=keys, partition_id=partition)
        return [
            Rollout(episode=episode, segments=segments[session], group=queue.prompt_of(session), key=session)
            for session, episode in episodes.items()
        ]

    def _submit(self, rows: Sequence[dict[str, Any]], due: int, *, validate: bool = False) -> str:
        """Start the episodes of rows; ``due`` is the global step that takes them. Returns their queue partition."""
        columns = collate_fn(list(rows))
        columns["uid"] = np.array([f"{next(self._uids):09d}" for _ in rows], dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", self.global_steps)
        if validate:
            tu.assign_non_tensor_data(batch, "validate", True)
        partition = "val" if validate else "train"
        tags = [{"is_prompt": True, "status": "pending", "global_steps": due}] * len(batch)
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.agent_loop_manager.generate_sequences(batch)
        return partition

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        """The agent-loop processes write the episodes that they ran; see :mod:`agentgym_rl.rollout.recorder`."""
        written: list[list[str]] = self.agent_loop_manager.write_episodes(path, asked)
        return written

    # batches of a policy gradient

    def batches(self, number: int, steps: int, rows: Rows) -> Iterator[list[Rollout]]:
        """The rollouts of a training step that count; each batch takes one :meth:`policy_step` before the next.

        After the last, the weights are synchronised and :attr:`step_metrics` is complete.

        Args:
            number: of the step, from 0; its rows are ``rows(number, 0, None)``.
            steps: of the whole stage; no episodes start for later ones.
        """
        self._rows, self._number, self._metrics = rows, number, MetricsAggregator()
        self.timing_raw, self.step_episodes = {}, []
        self._redraws, self._left_out = 0, Counter()
        self.config.trainer.critic_warmup = self.global_steps - number + self._warmup  # verl counts global steps
        if not self._synced:
            self.sync_weights(self.global_steps - 1)
        learnt: list[KVBatchMeta] = []
        with marked_timer("step", self.timing_raw):
            for due in self.schedule.start(number, steps):
                self._submit(rows(due, 0, None), self.global_steps + due - number)
            self.on_step_begin()
            for trigger in range(self.parameter_sync_step):
                self.local_trigger_step = trigger
                self._batch, rollouts = self._sample()
                yield rollouts
                if self._batch:
                    learnt.append(self._batch)
            self.sync_weights()
        metrics = {**self._metrics.get_aggregated_metrics(), **self._sync_metrics}
        if self._group_filter is not None:
            filtered, refilled = self._left_out["filtered"], self._left_out["refilled"]
            metrics |= {"batch/filtered_groups": filtered, "batch/refilled_groups": refilled}
            metrics["batch/unfilled_groups"] = filtered - refilled
        if learnt:
            keys, tags = [key for one in learnt for key in one.keys], [tag for one in learnt for tag in one.tags]
            batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
            self._compute_metrics(batch, metrics, self.timing_raw, global_steps=self.global_steps, epoch=0)
            tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
        self.step_metrics = {renamed(key): float(value) for key, value in metrics.items()}

    def _sample(self) -> tuple[KVBatchMeta, list[Rollout]]:
        """The next batch and its rollouts; with a critic also their values."""
        metrics: dict[str, Any] = {}
        with marked_timer("gen", self.timing_raw):
            self.on_sample_begin()
            batch, episodes = self._groups(self.config.data.train_batch_size // self.parameter_sync_step)
            batch.extra_info = {"temperature": self.config.actor_rollout_ref.rollout.temperature}
            self.on_sample_end()
            self._synced = False
        self.step_episodes += episodes.values()
        sessions = {queue.session_of(key) for key in batch.keys}
        if self._fewest_samples > 1:
            batch = queue.without_singletons(batch, may_be_empty=self._left_out["filtered"] > 0)
            kept = {queue.session_of(key) for key in batch.keys}
            metrics["rollout/singleton_episodes"] = len(sessions) - len(kept)
            sessions = kept
        if not sessions:
            self._metrics.add_step_metrics(metrics)
            return batch, []
        behind = [self.global_steps - 1 - int(tag["min_global_steps"]) for tag in batch.tags]
        metrics |= {"rollout/staleness": fmean(behind), "rollout/staleness_max": max(behind)}
        metrics["rollout/segments_per_episode"] = len(batch) / len(sessions)
        rollouts = [
            Rollout(episode=episodes[session], group=queue.prompt_of(session), key=session)
            for session in dict.fromkeys(map(queue.session_of, batch.keys))
        ]
        if self.use_critic:
            batch = self._balance(batch, metrics)
            with marked_timer("values", self.timing_raw):
                batch = self._compute_values(batch, metrics)
            queue.turn_values(batch, rollouts)
        self._metrics.add_step_metrics(metrics, sample_count=len(batch))
        return batch, rollouts

    def _groups(self, size: int) -> tuple[KVBatchMeta, dict[str, Episode]]:
        """The next groups, and all episodes that were sampled for them, those of filtered groups included.

        Filtered groups are replaced by others until none is left or the step's refills are spent. What replaces them
        follows from seed, step and redraw; in the asynchronous modes, tasks under way may take their place.
        """
        batch, episodes = self._next(size)
        count = self._left_out
        while self._group_filter and (flat := queue.flat_groups(batch, episodes, self._group_filter)):
            batch = queue.without_groups(batch, flat)
            again = min(len(flat), self._group_filter.refills - count["refilled"])
            count.update(filtered=len(flat), refilled=again)
            if again:
                self._add_prompts_to_generate(again)
                with self.replay_buffer.refilling():
                    more, others = self._next(again)
                batch, episodes = KVBatchMeta.concat([batch, more]), episodes | others
        return batch, episodes

    def _next(self, size: int) -> tuple[KVBatchMeta, dict[str, Episode]]:
        """The next ``size`` groups of the buffer, and their episodes."""
        batch, metrics = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id="train", batch_size=size
        )
        self._metrics.add_step_metrics(metrics)
        return batch, self.replay_buffer.take_episodes()

    def policy_step(self, update: Policy, lr: float) -> int:
        """The policy update of the present batch; returns how many optimizer steps the policy took.

        Raises:
            ValueError: with a critic, a rollout is left out.
        """
        assert self._batch is not None, "a batch takes one policy update"
        batch, timing = self._batch, self.timing_raw
        metrics: dict[str, Any] = {}
        kept = {rollout.key for rollout in update.rollouts}
        left_out = {queue.session_of(key) for key in batch.keys} - kept
        if not kept:
            queue.only(batch, kept)
            self._batch = None
            return 0
        actor = self.config.actor_rollout_ref.actor
        if not self.use_critic:
            batch = self._balance(queue.only(batch, kept), metrics)
        elif any(not tag.get("is_padding", False) for tag in _tags_of(batch, left_out)):
            raise ValueError("an algorithm with a critic learns from every rollout of a batch")
        self._set_loss("policy")
        self._set_optimizer(lr)
        learns = self.config.trainer.critic_warmup <= self.global_steps
        on_policy = learns and self._on_policy()
        if not on_policy:
            with marked_timer("old_log_prob", timing):
                batch = self._compute_old_log_prob(batch, metrics)
        if self._with_reference:
            with marked_timer("ref", timing):
                batch = self._compute_ref_log_prob(batch, metrics)
        with marked_timer("adv", timing):
            if update.rewards is not None:
                queue.write_rewards(batch, update.rollouts, update.rewards)
            if update.advantages is None:
                with without_correction(self.config):
                    batch = self._compute_advantage(batch, metrics)
            aggregation, turns = LossAggregation(actor.loss_agg_mode), actor.policy_loss.loss_mode == PolicyLoss.TURN
            longest = int(self.config.data.max_response_length)
            batch = queue.write(batch, update, self._update_of, aggregation, longest, turns=turns)
        if self.use_critic:
            with marked_timer("update_critic", timing):
                batch = self._critic_step(batch, metrics, at_turns=update.returns is not None)
        batch.extra_info.update(return_model_output=on_policy, entropy_is_logged=on_policy)
        with ThreadPoolExecutor(1, "metrics") as pool:  # beside the update, for which the driver only waits
            beside = [pool.submit(queue.advantage_metrics, batch, update.rollouts)]
            if not on_policy and not self.config.algorithm.rollout_correction.bypass_mode:
                beside.append(pool.submit(queue.ratio_metrics, batch))
            if learns:
                with marked_timer("update_actor", timing):
                    batch = self._update_actor(batch, metrics)
        for one in beside:
            metrics |= one.result()
        if on_policy:
            with marked_timer("old_log_prob", timing):
                batch.extra_info["of_update"] = True
                batch = self._compute_old_log_prob(batch, metrics)
            metrics |= queue.ratio_metrics(batch)
        real = sum(not tag.get("is_padding", False) for tag in batch.tags)
        self._metrics.add_step_metrics(metrics, sample_count=real)
        self._batch = batch
        return len(batch) // int(actor.ppo_mini_batch_size) * int(actor.ppo_epochs) if learns else 0

    def _on_policy(self) -> bool:
        """Whether one update learns from the present batch, with the weights that sampled it.

        Then the old log-probabilities are those that the update itself computes, and no pass of its own is spent on
        them. On a GPU it is, because verl's update would keep a gradient for the entropy, which is only logged.
        """
        correction, epochs = self.config.algorithm.rollout_correction, self.config.actor_rollout_ref.actor.ppo_epochs
        corrected = correction.bypass_mode or correction.rollout_is or correction.rollout_rs
        once = epochs == 1 and not any(self._update_of.values())
        return self._samples_present and once and not corrected and self.config.trainer.device == "cpu"

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Log-probabilities of the reference policy, whose weights take the place of the present ones meanwhile."""
        workers = self.actor_rollout_wg
        workers.save_model_to_cpu(PRESENT)
        workers.restore_model_from_cpu(REFERENCE)
        queue.log_probs_of(batch, workers.compute_log_prob, self.config.actor_rollout_ref.rollout.temperature)
        workers.restore_model_from_cpu(PRESENT)
        workers.clear_cpu_model(PRESENT)
        return batch

    def _critic_step(self, batch: KVBatchMeta, metrics: dict[str, Any], *, at_turns: bool) -> KVBatchMeta:
        if not at_turns:
            return self._update_critic(batch, metrics)
        with queue.critic_learns_at_turns(batch):
            return self._update_critic(batch, metrics)

    def _balance(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Updates of whole groups, as many groups each as the recipe says, padded to the same number of rows."""
        workers = self.resource_pool_manager.get_n_gpus()
        seed = f"{self.config.data.seed}:{self.global_steps}:{self.local_trigger_step}"
        shares = queue.share_out(batch, self._mini_batch, seed)
        size = -(-max(map(len, shares)) // workers) * workers
        self.config.actor_rollout_ref.actor.ppo_mini_batch_size = self.config.critic.ppo_mini_batch_size = size
        batch = upsample_batch_to_divisible_size(batch, size * len(shares), self.tokenizer.eos_token_id)
        self._update_of = queue.arrange(batch, shares, workers)
        metrics["batch/updates"], metrics["batch/rows_per_update"] = len(shares), size
        return batch

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Replace groups that the buffer gave up or the filter left out, in the step that asks."""
        assert self._rows is not None, "a training step needs rows"
        self._redraws += 1
        self._submit(self._rows(self._number, self._redraws, num_prompts), self.global_steps)
        return num_prompts

    # updates on tokens

    def sft_step(self, update: Supervised, lr: float, seed: str, progress: Progress) -> tuple[Metrics, int]:
        """Supervised updates; returns metrics, means over the updates, and their number.

        The workers are given one update, then twice as many each time until these take :data:`PART_S`.
        """
        size = update.mini_batch
        chosen = [update.examples[index] for index in order(len(update.examples), size, seed, update.updates)]
        updates, done, part = len(chosen) // size, 0, 1
        if not updates:
            return {"supervised/updates": 0}, 0
        self._set_loss("supervised")
        self.sleep()
        self._set_optimizer(lr)
        loss = grad_norm = 0.0
        while done < updates:
            begun, end = time.monotonic(), min(done + part, updates)
            data = to_batch(chosen[done * size : end * size], size)
            metrics = reduce_metrics(dict(self.actor_rollout_wg.update_actor(data)["metrics"]))
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
        pairs = update.pairs
        workers = self.config.trainer.nnodes * self.config.trainer.n_gpus_per_node
        size = -(-min(update.mini_batch, len(pairs)) // workers) * workers  # every worker takes an equal share
        self.sleep()
        reference = self._reference(pairs, size)
        self._set_loss("preference")
        self._set_optimizer(lr)
        passes: list[dict[str, float]] = []
        updates = 0
        for epoch in range(update.epochs):
            places = order(len(pairs), size, f"{seed}:{epoch}")
            data = pair_batch([pairs[place] for place in places], size)
            data["ref_log_prob"] = reference[places].flatten()
            tu.assign_non_tensor(data, beta=update.beta)
            passes.append(reduce_metrics(dict(self.actor_rollout_wg.update_actor(data)["metrics"])))
            updates += len(places) // size
        mean = {name: fmean(float(one[name]) for one in passes) for name in ("loss", *PREFERENCE, "grad_norm")}
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
        output = self.actor_rollout_wg.compute_log_prob(data)
        sums = episode_log_probs(output["log_probs"], data["loss_mask"])
        return sums.view(-1, 2)[: len(pairs)]

    def _set_loss(self, kind: str) -> None:
        """The workers keep one loss; change it only when the kind of update changes."""
        self._pristine = False
        if kind == self._loss:
            return
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(LOSSES[kind], config=actor))
        self._loss = kind

    def _set_optimizer(self, lr: float) -> None:
        """Each update has its own settings, because a checkpoint brings back those that it was saved with."""
        chosen = self.optimizer
        self.actor_rollout_wg.set_optimizer(lr, chosen.weight_decay, tuple(chosen.betas), chosen.clip_grad)

    # weights

    @property
    def _servers(self) -> Any:
        """verl's manager of the vLLM servers that roll out."""
        return self.checkpoint_manager

    @property
    def _server_handles(self) -> list[Any]:
        """Each of these servers."""
        handles: list[Any] = self.llm_server_manager.server_handles
        return handles

    def sync_weights(self, step: int | None = None) -> None:
        """Send the weights to the vLLM servers, as those after a global step; None is the present one.

        Raises:
            WeightsNotSynced: ``engine.verify_sync`` asks for a comparison, and a server has other weights.
        """
        due = self._probe.due(self._verify_sync)
        learner = self._probe.learner(self.actor_rollout_wg) if due else None  # while the servers leave it the memory
        with marked_timer("update_weights", self.timing_raw):
            self._send_weights(self.global_steps if step is None else step)
        self._synced = True
        if learner is not None:
            self._sync_metrics = self._probe.compare(learner, self._probe.servers(self._server_handles))

    def _send_weights(self, step: int) -> None:
        self._servers.update_weights(step)

    def sleep(self) -> None:
        """The vLLM servers give their memory to the workers until :meth:`sync_weights`."""
        if self._synced:
            self.checkpoint_manager.sleep_replicas()
            self._synced = False

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""
        self.actor_rollout_wg.reset_optimizer()

    def save(self) -> str:
        """Write a checkpoint of the current step; returns its folder name."""
        self._save_checkpoint()
        return f"global_step_{self.global_steps}"

    def remember_base(self, folder: Path) -> None:
        """Keep the weights as loaded, so that :meth:`restore` can bring them back.

        The policy's stay in the workers' memory; a critic's, which only later runs need, go to a folder.
        """
        self.actor_rollout_wg.save_model_to_cpu(BASE)
        if self.use_critic:
            self._critic_base = str(folder / "critic")
            self.critic_wg.save_checkpoint(self._critic_base)

    def remember_reference(self) -> None:
        """Take the present weights as the reference policy."""
        self.actor_rollout_wg.save_model_to_cpu(REFERENCE)

    def start_critic(self, folder: Path) -> None:
        """Start the critic from the policy of a checkpoint folder; its head stays as it is."""
        self.critic_wg.start_from(str(folder / "actor"))

    def restore(self, folder: Path | None) -> None:
        """Bring back weights and optimizer of a checkpoint folder, or the weights as loaded, in place.

        Weights as loaded come without optimizer state; they must be remembered, unless nothing has changed them yet.
        """
        if folder is None and self._pristine:
            return
        self.sleep()
        if folder is None:
            self.actor_rollout_wg.restore_model_from_cpu(BASE)
            self.reset_optimizer()
            return
        self._pristine = False
        self.actor_rollout_wg.load_checkpoint(local_path=str(folder / "actor"))
        if self.use_critic and (folder / str(Role.Critic)).is_dir():
            self.critic_wg.load_checkpoint(local_path=str(folder / str(Role.Critic)))


@contextmanager
def without_correction(config: DictConfig) -> Iterator[None]:
    """Inside, verl's advantages are not preceded by its correction, for which the workers are there."""
    correction = config.algorithm.rollout_correction
    before, correction.bypass_mode = correction.bypass_mode, True
    try:
        yield
    finally:
        correction.bypass_mode = before


PART_S = 10.0
"""Seconds of supervised updates after which progress is shown again."""
BASE, REFERENCE, PRESENT = "base", "reference", "present"
"""Weights that the workers keep: as loaded, of the reference policy, and those that learn while others are used."""
PREFERENCE = ("dpo/margin", "dpo/accuracy")
"""Metrics of the preference loss."""


def _tags_of(batch: KVBatchMeta, sessions: set[str]) -> list[dict[str, Any]]:
    return [tag for key, tag in zip(batch.keys, batch.tags, strict=True) if queue.session_of(key) in sessions]


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)
