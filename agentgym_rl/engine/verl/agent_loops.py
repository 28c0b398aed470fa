"""verl's agent-loop workers, started beside the engine, because they import as many libraries as it does."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.rollout_trace import rollout_trace_attr
from verl.workers.rollout.replica import get_rollout_replica_class

from agentgym_rl.rollout.agent_loop import NAME, AgentGymLoop

_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class EarlyWorker(_Worker):  # type: ignore[misc, valid-type]
    """Gets its LLM clients when the servers are up; until then it imports what their handles need."""

    def __init__(self, config: DictConfig, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        get_rollout_replica_class(config.actor_rollout_ref.rollout.name)

    def connect(self, llm_client: Any, teacher_client: Any, reward_loop_worker_handles: Any) -> None:
        self.llm_client = llm_client
        self.teacher_client = teacher_client
        self.reward_loop_worker_handles = reward_loop_worker_handles
        self._episodes = AgentGymLoop(
            trainer_config=DictConfigWrap(self.config),
            server_manager=llm_client,
            tokenizer=self.tokenizer,
            processor=self.processor,
            dataset_cls=self.dataset_cls,
            data_config=DictConfigWrap(self.config.data),
            hf_model_type=self.hf_model_type,
        )

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **row: Any,
    ) -> None:
        """One agent loop for all episodes; verl has Hydra make one an episode, which costs as much as a turn."""
        if agent_name != NAME:
            await super()._run_agent_loop(sampling_params, trajectory, agent_name=agent_name, trace=trace, **row)
            return
        about = {key: trajectory[key] for key in ("step", "sample_index", "rollout_n", "validate")}
        with rollout_trace_attr(**about, name="agent_loop", trace=trace):
            outputs = await self._episodes.run(sampling_params, **row)
            await self._agent_loop_postprocess(outputs, trajectory["validate"], **row)


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
