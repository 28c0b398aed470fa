"""verl's trainer, opened up: single phases of a step that the stages of a run put together."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.workers.utils.losses import ppo_loss, sft_loss

from agentgym_rl.algorithms import dpo
from agentgym_rl.algorithms.search import Played
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.verl.buffer import EpisodeBuffer
from agentgym_rl.engine.verl.credit import CreditTrainer
from agentgym_rl.engine.verl.keys import sample_of, session_of
from agentgym_rl.engine.verl.preference import Pair, dpo_loss, episode_log_probs, pair_batch
from agentgym_rl.engine.verl.supervised import order, to_batch
from agentgym_rl.engine.verl.worker import AgentWorker
from agentgym_rl.rollout.supervised import Example, from_rollout

Progress = Callable[[int, int], None]
"""Told of the tasks finished and of all tasks."""

Rows = Callable[[int, int], list[dict[str, Any]]]
"""The tasks of a step (from 0); its second argument asks for the n-th other draw of them."""


LOSSES = {"policy": ppo_loss, "supervised": sft_loss, "preference": dpo_loss}
"""By the kind of step; the workers import them by name."""


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


class AgentTrainer(CreditTrainer):
    """One set of Ray workers, weights and vLLM servers for every phase: explore, evaluate, clone, reinforce.

    :mod:`agentgym_rl.engine.verl.modes` says how playing and learning share time and machines.
    """

    replay_buffer: EpisodeBuffer
    ahead = 0
    """Steps whose episodes are played while an earlier one is learnt from."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.rows: Rows | None = None
        """Rows of the algorithm's step whose number it is given; set by the run's stages."""
        self.rollout_s = 0.0
        """How long the last batch of episodes took, in seconds."""
        self.timing_raw: dict[str, float] = {}
        self.curr_step_profile = False
        self._loss: str = "policy"
        self._number, self._last, self._begins, self._refills = -1, -1, True, 0
        self._pristine = True
        self._awake = True
        self._critic_base: str | None = None

    # what verl's set-up asks

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef, Role.RefPolicy):
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(AgentWorker)

    def _load_checkpoint(self) -> None:
        """The last thing verl's set-up does. The run restores its own state; here the workers must be ready."""
        self.actor_rollout_wg.ready()

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Replace groups that the buffer gave up, in the step that asks."""
        assert self.rows is not None, "a training step needs rows"
        self._refills += 1
        self._submit(self.rows(self._number, self._refills)[:num_prompts], self.global_steps)
        return num_prompts

    def prepare_step(self) -> dict[str, Any]:
        """Send out the step's own batch and those that are to be under way while it is learnt from."""
        assert self.rows is not None, "a training step needs rows"
        first = self._number if self._begins else self._number + self.ahead  # the others are under way
        for number in range(first, min(self._number + self.ahead, self._last) + 1):
            self._submit(self.rows(number, 0), self.global_steps + number - self._number)
        return {}

    def _submit(self, rows: Sequence[dict[str, Any]], due: int, *, validate: bool = False) -> str:
        """Have rows played; ``due`` is the global step that is to take them. Returns their partition of the queue."""
        batch = self._batch(rows, validate=validate)
        partition = "val" if validate else "train"
        tags = [{"is_prompt": True, "status": "pending", "global_steps": due}] * len(batch)
        tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
        self.agent_loop_manager.generate_sequences(batch)
        return partition

    # phases

    def begin(self, agent_loop_manager: Any) -> None:
        """Take over the agent-loop workers; the weights are already in vLLM."""
        self.agent_loop_manager = agent_loop_manager

    def play(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        validate: bool,
        progress: Progress | None = None,
        take: Callable[[list[Played]], None] | None = None,
        chunk: int | None = None,
    ) -> list[Played]:
        """Play the episodes of the rows with the current weights.

        Args:
            rows: see :func:`agentgym_rl.engine.verl.dataset.row`.
            validate: keep them apart from training episodes.
            progress: told while episodes are played; what it raises ends the play.
            take: given every ``chunk`` finished rows while others are still played.
            chunk: None waits for all.

        Returns:
            All episodes with their tokens, in the order in which they finished.
        """
        if not self._awake:
            self.publish()
        begun = time.monotonic()
        partition = self._submit(rows, self.global_steps, validate=validate)
        played: list[Played] = []
        done = 0
        with self.replay_buffer.exploring():
            while done < len(rows):
                if progress is not None:
                    self.replay_buffer.progress = partial(_shifted, progress, done, len(rows))
                size = min(chunk or len(rows), len(rows) - done)
                finished = self._take_finished(partition, size)
                done += size
                played += finished
                if take is not None:
                    take(finished)
        self.rollout_s = time.monotonic() - begun
        return played

    def _take_finished(self, partition: str, size: int) -> list[Played]:
        """Wait for ``size`` rows to finish and take their episodes and tokens."""
        sampled, _ = self.replay_buffer.sample(global_steps=self.global_steps, partition_id=partition, batch_size=size)
        episodes = self.replay_buffer.take_episodes()
        samples: dict[str, list[Example]] = {session: [] for session in episodes}
        if keys := sorted(sampled.keys, key=sample_of):
            data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=["input_ids", "response_mask"])
            for key, ids, mask in zip(keys, data["input_ids"].unbind(), data["response_mask"].unbind(), strict=True):
                samples[session_of(key)].append(from_rollout(ids.tolist(), mask.tolist()))
            tq.kv_clear(keys=keys, partition_id=partition)
        return [(episode, samples[session]) for session, episode in episodes.items()]

    def imitate(
        self, examples: Sequence[Example], *, batch: int, lr: float, seed: str, updates: int | None = None
    ) -> dict[str, float]:
        """Supervised steps: one shuffled pass over the examples, or ``updates`` mini-batches of them."""
        self._set_loss("supervised")
        self._rest()
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

    def reinforce(self, lr: float, number: int, steps: int) -> tuple[dict[str, float], list[Episode]]:
        """One step of the configured estimator.

        Args:
            number: of the step, from 0; its tasks are ``rows(number)``.
            steps: of the whole stage; nothing is played for later ones.
        """
        self._begins = number == 0 or number != self._number + 1  # a stage, or what is left of it after a stop
        self._number, self._last = number, steps - 1
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
        return {key: float(value) for key, value in metrics.items()}, list(self.replay_buffer.take_episodes().values())

    def prefer(
        self,
        episodes: Sequence[Episode],
        examples: Sequence[Example],
        *,
        beta: float,
        pairs_per_task: int,
        batch: int,
        epochs: int,
        lr: float,
        seed: str,
    ) -> dict[str, float]:
        """DPO on episodes that count and their tokens; the reference is the policy as it comes in.

        Args:
            batch: most pairs an update.
            epochs: passes over the pairs.

        Returns:
            Means over all updates; ``dpo/pairs`` is 0 and nothing is learnt when no task was both solved and failed.
        """
        chosen = dpo.pairs(episodes, pairs_per_task, seed)
        if not chosen:
            return {"dpo/pairs": 0.0, "dpo/updates": 0.0}
        pairs = [(examples[won], examples[lost]) for won, lost in chosen]
        workers = self.config.trainer.nnodes * self.config.trainer.n_gpus_per_node
        size = -(-min(batch, len(pairs)) // workers) * workers  # every worker takes an equal share of an update
        self._rest()
        reference = self._reference(pairs, size)
        self._set_loss("preference")
        self.actor_rollout_wg.set_learning_rate(lr)
        passes: list[dict[str, float]] = []
        updates = 0
        for epoch in range(epochs):
            places = order(len(pairs), size, f"{seed}:{epoch}")
            data = pair_batch([pairs[place] for place in places], size)
            data["ref_log_prob"] = reference[places].flatten()
            tu.assign_non_tensor(data, beta=beta)
            passes.append(reduce_metrics(dict(self.actor_rollout_wg.update_actor(data)["metrics"])))
            updates += len(places) // size
        mean = {
            name: sum(float(one[name]) for one in passes) / epochs
            for name in ("loss", "dpo/margin", "dpo/accuracy", "grad_norm")
        }
        return {
            "dpo/pairs": float(len(pairs)),
            "dpo/updates": float(updates),
            "dpo/loss": mean["loss"],
            "dpo/margin": mean["dpo/margin"],
            "dpo/accuracy": mean["dpo/accuracy"],
            "actor/grad_norm": mean["grad_norm"],
            "actor/lr": lr,
        }

    @property
    def _servers(self) -> Any:
        """verl's manager of the vLLM servers that play."""
        return self.checkpoint_manager

    def publish(self) -> None:
        """Send the weights to the vLLM servers."""
        with marked_timer("update_weights", self.timing_raw):
            self._servers.update_weights(self.global_steps)
        self._awake = True

    def forget_optimizer(self, lr: float) -> None:
        """Start a stage with fresh optimiser state."""
        self.actor_rollout_wg.set_learning_rate(lr, fresh_optimizer=True)

    def save(self) -> str:
        """Write a checkpoint of the current step; returns its folder name."""
        self._save_checkpoint()
        return f"global_step_{self.global_steps}"

    def remember_base(self, folder: Path) -> None:
        """Keep the weights as loaded, so that :meth:`restore` can bring them back.

        The policy's stay in the workers' memory; a critic's, which only later runs need, go to a folder.
        """
        self.actor_rollout_wg.remember_base()
        if self.use_critic:
            self._critic_base = str(folder / "critic")
            self.critic_wg.save_checkpoint(self._critic_base)

    def restore(self, folder: Path | None) -> None:
        """Bring back weights and optimiser of a checkpoint folder in place, or the weights as loaded; publish them.

        Weights as loaded come without optimiser state; they must be remembered, unless nothing has changed them yet.
        """
        if folder is None and self._pristine:
            return
        self._rest()
        if folder is None:
            self.actor_rollout_wg.restore_base()
        else:
            self._pristine = False
            self.actor_rollout_wg.load_checkpoint(local_path=str(folder / "actor"))
            if self.use_critic and (folder / str(Role.Critic)).is_dir():
                self.critic_wg.load_checkpoint(local_path=str(folder / str(Role.Critic)))
        self.publish()

    def configure(self, config: DictConfig) -> None:
        """Go on with another run's settings on the same workers; :mod:`~agentgym_rl.engine.run.session` says which."""
        self.config = config
        self._minibatch = int(config.actor_rollout_ref.actor.ppo_mini_batch_size)
        self._loss = ""
        if self.use_critic:
            assert self._critic_base is not None, "the critic as loaded was not remembered"
            self.critic_wg.load_checkpoint(local_path=self._critic_base)

    # helpers

    def _rest(self) -> None:
        """Let the vLLM servers give their memory to the workers; :meth:`publish` wakes them."""
        if self._awake:
            self.checkpoint_manager.sleep_replicas()
            self._awake = False

    def _reference(self, pairs: Sequence[Pair], size: int) -> torch.Tensor:
        """[pairs, 2]: the present policy's log-probabilities of pairs; ``size`` is a multiple of the workers."""
        filled = [pairs[place % len(pairs)] for place in range(-(-len(pairs) // size) * size)]
        data = pair_batch(filled, size)
        tu.assign_non_tensor(data, compute_loss=False)
        output = self.actor_rollout_wg.compute_log_prob(data)
        sums = episode_log_probs(output["log_probs"], data["loss_mask"])
        return sums.view(-1, 2)[: len(pairs)]

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
        self._pristine = False
        if kind == self._loss:
            return
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(LOSSES[kind], config=actor))
        self._loss = kind
