"""verl's agent-loop workers, started while the engine is: they import most of a second process's worth of libraries."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class EarlyWorker(_Worker):  # type: ignore[misc, valid-type]
    """Is told of the LLM servers when they are up."""

    def connect(self, llm_client: Any, teacher_client: Any, reward_loop_worker_handles: Any) -> None:
        self.llm_client = llm_client
        self.teacher_client = teacher_client
        self.reward_loop_worker_handles = reward_loop_worker_handles


class EarlyManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """Starts its workers without waiting for LLM servers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(EarlyWorker)

    @classmethod
    def start(cls, config: DictConfig) -> EarlyManager:
        """Begin starting the workers; returns at once."""
        manager: EarlyManager = cls.create(config=config, llm_client=None)
        return manager

    def connect(self, llm_client: Any, teacher_client: Any, reward_loop_worker_handles: Any) -> None:
        """Give every worker its clients; returns when all are up.

        Raises:
            RayActorError: a worker died.
        """
        clients = (llm_client, teacher_client, reward_loop_worker_handles)
        ray.get([worker.connect.remote(*clients) for worker in self.agent_loop_workers])
