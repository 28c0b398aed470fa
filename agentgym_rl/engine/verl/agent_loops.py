"""verl's agent-loop workers, started beside the engine, because they import as many libraries as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.replica import get_rollout_replica_class

from agentgym_rl.engine.verl.fields import own_by_third
from agentgym_rl.engine.verl.rows import pack
from agentgym_rl.rollout.agent_loop import AgentGymLoop
from agentgym_rl.rollout.recorder import Advantages, EpisodeRecorder, shard

READ = {"prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores", "num_turns"}
"""Fields of an output that trainer or workers read."""

_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class EarlyWorker(_Worker):  # type: ignore[misc, valid-type]
    """Gets its LLM clients when the servers are up; until then it imports what their handles need."""

    def __init__(self, config: DictConfig, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        get_rollout_replica_class(config.actor_rollout_ref.rollout.name)
        self._recorder = EpisodeRecorder()

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
            recorder=self._recorder,
        )

    async def write_episodes(self, path: Path, asked: Advantages) -> list[str]:
        """Write the full episodes that this process ran; returns their keys."""
        return await asyncio.to_thread(self._recorder.write, path, asked)

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: dict[str, Any], trajectory: dict[str, Any], trace: bool = False
    ) -> None:
        """All episodes of a prompt, by one agent loop, and one write of their rows when the last has ended.

        verl has Hydra make a loop an episode, and writes each on its own with all that the prompt says; both cost as
        much as a turn. It also loses the prompt of an episode that raised. Here every prompt finishes with as many
        episodes as it was asked for: one that was cancelled by itself, or whose rows could not be written, is among
        them, and does not count.
        """
        uid, partition = prompt["uid"], "val" if trajectory["validate"] else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        samples = range(prompt["__rollout_n__"])
        runs = (self._episodes.run(sampling_params, sample=sample, **prompt) for sample in samples)
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        ended = [
            self._episodes.lost(prompt, result) if isinstance(result, BaseException) else result for result in outcomes
        ]
        try:
            keys, fields, tags = rows(uid, prompt["global_steps"], ended)
            await tq.async_kv_batch_put(keys=keys, fields=fields, tags=tags, partition_id=partition)
        except Exception as error:  # noqa: BLE001 - the prompt fails, and the trainer does not wait for it
            ended = [self._episodes.lost(prompt, error) for _ in samples]
        episodes = [outputs[-1].extra_fields["episode"] for outputs in ended]
        end = {"status": "finished"}
        await tq.async_kv_put(key=uid, partition_id=partition, fields=pack(episodes), tag=end)


def rows(
    uid: str, step: int, ended: Sequence[list[AgentLoopOutput]]
) -> tuple[list[str], TensorDict, list[dict[str, Any]]]:
    """Keys, fields and tags of the rows of a prompt in verl's queue, only what trainer or workers read.

    Args:
        ended: of each episode its segments.
    """
    keys, fields, tags = [], [], []
    for session, outputs in enumerate(ended):
        episode = outputs[-1].extra_fields["episode"]
        for segment, output in enumerate(outputs):
            row = {name: value for name, value in output.as_dict().items() if name in READ}
            row["input_ids"] = torch.cat([row["prompts"], row["responses"]])
            row["position_ids"] = torch.arange(len(row["input_ids"]))
            row["loss_mask"], row["uid"] = row["response_mask"], uid
            keys.append(f"{uid}_{session}_{segment}")
            fields.append(row)
            tags.append(
                {
                    "status": "success",
                    "prompt_len": len(row["prompts"]),
                    "response_len": len(row["responses"]),
                    "seq_len": len(row["input_ids"]),
                    "own_tokens": int(row["response_mask"].sum()),
                    "own_by_third": own_by_third(row["response_mask"], episode.turns, segment),
                    "score": float(row["rm_scores"].sum()),
                    "num_turns": int(row["num_turns"]),
                    "global_steps": step,
                    "min_global_steps": output.extra_fields["min_global_steps"],
                    "max_global_steps": output.extra_fields["max_global_steps"],
                }
            )
    return keys, list_of_dict_to_tensordict(fields), tags


class EarlyManager(AgentLoopManagerTQ):  # type: ignore[misc]
    """Starts its workers without waiting for LLM servers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(EarlyWorker)
        self._dealt = 0

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

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Deal prompts to the workers, the next one after where the last call ended.

        verl's chunks give a single prompt to the first worker each time, and may leave workers without any.
        """
        workers, first = self.agent_loop_workers, self._dealt
        self._dealt += len(prompts)
        ray.get(
            [
                workers[(first + place) % len(workers)].generate_sequences.remote(prompts[place :: len(workers)])
                for place in range(min(len(workers), len(prompts)))
            ]
        )

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        """Every worker writes the episodes that it ran, as a shard; returns the keys of each."""
        workers = enumerate(self.agent_loop_workers)
        written: list[list[str]] = ray.get(
            [worker.write_episodes.remote(shard(path, number), asked) for number, worker in workers]
        )
        return written
