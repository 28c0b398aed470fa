"""verl's trainer, which starts workers and servers for the phases that a run puts together."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import ray
from omegaconf import DictConfig
from verl.single_controller.ray import RayWorkerGroup
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from agentgym_rl.engine.verl.buffer import EpisodeBuffer
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.ports import meeting_ports
from agentgym_rl.engine.verl.sampler import Sampler
from agentgym_rl.engine.verl.schedule import Schedule
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.weights import Servers, Weights
from agentgym_rl.engine.verl.worker import AgentWorker, CriticWorker

trainer_base.RayWorkerGroup = partial(RayWorkerGroup, master_port_range=meeting_ports())

FULL_COLLECTION = 1_000
"""Python's third threshold, 10 by default: how seldom all objects are searched for cycles. The episodes of a large step
are many objects without any; to search them took most of the time in which they were read."""


class AgentTrainer(PPOTrainer):  # type: ignore[misc]
    """One set of Ray workers, weights and vLLM servers for every phase of a run.

    :mod:`agentgym_rl.engine.verl.modes` says how rollouts and updates share time and machines.
    """

    replay_buffer: EpisodeBuffer
    trainer_mode: str
    samples_present = False
    """True if a batch is sampled with the weights that learn from it."""

    def __init__(self, config: DictConfig, ahead: int = 0) -> None:
        """
        Args:
            ahead: steps whose episodes are under way while an earlier one is learned from.
        """
        super().__init__(config)
        gc.set_threshold(*gc.get_threshold()[:2], FULL_COLLECTION)
        self.timing_raw: dict[str, float] = {}
        self.curr_step_profile = False
        self.settings = Settings(config)
        self.weights = Weights(self, self.settings)
        self.learner = Learner(self, self.settings, self.weights)
        self.sampler = Sampler(self, self.settings, self.weights, self.learner, ahead)

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

    def _save_checkpoint(self) -> None:
        """verl's, without the queue of the asynchronous modes: what goes on begins with nothing under way."""
        mode, self.trainer_mode = self.trainer_mode, "sync"
        try:
            super()._save_checkpoint()
        finally:
            self.trainer_mode = mode

    def begin(self, agent_loop_manager: Any) -> None:
        """Take over the agent-loop workers; the weights are already in vLLM."""
        self.agent_loop_manager = agent_loop_manager
        self.weights.begin()

    def configure(self, config: DictConfig) -> None:
        """Go on with another run's settings on the same workers; :mod:`~agentgym_rl.engine.run.session` says which."""
        self.config = config
        self.settings.take(config)
        self.learner.loss = None
        self.sampler.schedule = Schedule(self.sampler.schedule.ahead)
        self.weights.sync_metrics = {}
        self.weights.restore_critic()

    def servers(self) -> Servers:
        """The vLLM servers that roll out."""
        return Servers(self.checkpoint_manager, self.llm_server_manager.server_handles)

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """The buffer has given up so many groups."""
        self.sampler.redraw(num_prompts)
        return num_prompts
