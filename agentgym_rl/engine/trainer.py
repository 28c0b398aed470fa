"""verl's trainer, opened up: single phases of a step that the stages of a run put together."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import ray
import transfer_queue as tq
from omegaconf import DictConfig
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.workers.utils.losses import ppo_loss, sft_loss

from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.buffer import EpisodeBuffer
from agentgym_rl.engine.supervised import order, to_batch
from agentgym_rl.engine.worker import AgentWorker
from agentgym_rl.rollout.supervised import Example, from_rollout

Progress = Callable[[int, int], None]
"""Told of the tasks finished and of all tasks."""


@register_trainer("agentgym")
class AgentTrainer(PPOTrainerSync):  # type: ignore[misc]
    """One set of Ray workers, weights and vLLM servers for every phase: explore, evaluate, clone, reinforce."""

    replay_buffer: EpisodeBuffer

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.rows: Callable[[int], list[dict[str, Any]]] | None = None
        """Rows of the training step whose number it is given; set by the run's stages."""
        self.rollout_s = 0.0
        """How long the last batch of episodes took, in seconds."""
        self.timing_raw: dict[str, float] = {}
        self.curr_step_profile = False
        self._loss: str = "policy"

    # what verl's set-up asks

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.ActorRollout, Role.ActorRolloutRef):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(AgentWorker)

    def _load_checkpoint(self) -> None:
        """The last thing verl's set-up does. The run restores its own state; here the workers must be ready."""
        self.actor_rollout_wg.ready()

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        assert self.rows is not None, "a training step needs rows"
        return self._batch(self.rows(self.global_steps), validate=False)

    # phases

    def begin(self, agent_loop_manager: Any) -> None:
        """Take over the agent-loop workers; the weights are already in vLLM."""
        self.agent_loop_manager = agent_loop_manager

    def play(
        self, rows: Sequence[dict[str, Any]], *, validate: bool, progress: Progress | None = None
    ) -> tuple[list[Episode], list[Example]]:
        """Play the episodes of the rows with the current weights.

        Returns:
            All episodes, and the tokens of those that count, in the same order with the others left out.
        """
        batch = self._batch(rows, validate=validate)
        partition = "val" if validate else "train"
        tags = [{"is_prompt": True, "status": "pending", "global_steps": self.global_steps}] * len(batch)
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.replay_buffer.progress = progress
        begun = time.monotonic()
        self.agent_loop_manager.generate_sequences(batch)
        sampled, _ = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id=partition, batch_size=len(rows)
        )
        self.rollout_s = time.monotonic() - begun
        self.replay_buffer.progress = None
        episodes = self.replay_buffer.take_episodes()
        examples: list[Example] = []
        if sampled.keys:
            data = tq.kv_batch_get(
                keys=sampled.keys, partition_id=partition, select_fields=["input_ids", "response_mask"]
            )
            examples = [
                from_rollout(ids.tolist(), mask.tolist())
                for ids, mask in zip(data["input_ids"].unbind(), data["response_mask"].unbind(), strict=True)
            ]
            tq.kv_clear(keys=sampled.keys, partition_id=partition)
        return episodes, examples

    def imitate(
        self, examples: Sequence[Example], *, batch: int, lr: float, seed: str, updates: int | None = None
    ) -> dict[str, float]:
        """Supervised steps: one shuffled pass over the examples, or ``updates`` mini-batches of them."""
        self._set_loss("supervised")
        self.actor_rollout_wg.set_learning_rate(lr)
        chosen = order(len(examples), batch, seed, updates)
        output = self.actor_rollout_wg.update_actor(to_batch([examples[index] for index in chosen], batch))
        metrics = reduce_metrics(dict(output["metrics"]))
        return {
            "supervised/loss": float(metrics["loss"]),
            "supervised/grad_norm": float(metrics["grad_norm"]),
            "supervised/lr": lr,
            "supervised/updates": len(chosen) // batch,
        }

    def reinforce(self, lr: float) -> tuple[dict[str, float], list[Episode]]:
        """One step of the configured estimator on fresh episodes of ``rows(global_steps)``."""
        self._set_loss("policy")
        self.actor_rollout_wg.set_learning_rate(lr)
        metrics: dict[str, Any] = {}
        self.timing_raw = {}
        with marked_timer("step", self.timing_raw):
            batch = self.step(metrics, self.timing_raw)
            self.publish()
        self.rollout_s = self.timing_raw["gen"]
        self._compute_metrics(batch, metrics, self.timing_raw, global_steps=self.global_steps, epoch=0)
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
        return {key: float(value) for key, value in metrics.items()}, self.replay_buffer.take_episodes()

    def publish(self) -> None:
        """Send the weights to the vLLM servers."""
        with marked_timer("update_weights", self.timing_raw):
            self.checkpoint_manager.update_weights(self.global_steps)

    def forget_optimizer(self, lr: float) -> None:
        """Start a stage with fresh optimiser state."""
        self.actor_rollout_wg.set_learning_rate(lr, fresh_optimizer=True)

    def save(self) -> str:
        """Write a checkpoint of the current step; returns its folder name."""
        self._save_checkpoint()
        return f"global_step_{self.global_steps}"

    def load(self, folder: str) -> None:
        """Bring back weights and optimiser of a checkpoint folder in place, and publish them."""
        self.actor_rollout_wg.load_checkpoint(local_path=f"{folder}/actor")
        if self.use_critic:
            self.critic_wg.load_checkpoint(local_path=f"{folder}/{Role.Critic}")
        self.publish()

    # helpers

    def _batch(self, rows: Sequence[dict[str, Any]], *, validate: bool) -> Any:
        columns = collate_fn(list(rows))
        columns["uid"] = np.array([str(uuid.uuid4()) for _ in rows], dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", self.global_steps)
        if validate:
            tu.assign_non_tensor_data(batch, "validate", True)
        return batch

    def _set_loss(self, kind: str) -> None:
        """The workers keep one loss; change it only when the kind of step changes."""
        if kind == self._loss:
            return
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(sft_loss if kind == "supervised" else ppo_loss, config=actor))
        self._loss = kind
