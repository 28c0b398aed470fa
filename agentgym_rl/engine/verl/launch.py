"""Start training workers, vLLM servers and agent loops, within a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig
from verl.workers.rollout.replica import get_rollout_replica_class

import agentgym_rl.engine.verl.storage  # noqa: F401 - registers itself
from agentgym_rl.engine.verl import ray_logs
from agentgym_rl.engine.verl.agent_loops import EarlyManager
from agentgym_rl.engine.verl.liveness import root
from agentgym_rl.engine.verl.modes import TRAINERS
from agentgym_rl.engine.verl.trainer import AgentTrainer


class LaunchFailed(RuntimeError):
    """The engine did not come up."""


def launch(config: DictConfig, seconds: float, say: Callable[[str], None]) -> AgentTrainer:
    """Start everything that a run needs on a running Ray.

    Raises:
        LaunchFailed: a worker failed, or nothing was ready after ``seconds``.
    """
    trainer_config = config.trainer
    workers = trainer_config.nnodes * trainer_config.n_gpus_per_node
    say(f"starting {workers} FSDP worker(s) and vLLM on {trainer_config.device}")
    outcome: dict[str, Any] = {}

    def start() -> None:
        try:
            outcome["trainer"] = _start(config)
        except BaseException as error:  # noqa: BLE001 - raised where the thread is waited for
            outcome["error"] = error

    thread = threading.Thread(target=start, name="launch", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        where = "" if (logs := ray_logs.folder()) is None else f" in {logs}"
        raise LaunchFailed(
            f"the workers were not ready after {seconds:g} s; Ray's logs{where} say what they waited for, and "
            "engine.start_seconds gives a slow machine more time"
        )
    if "error" in outcome:
        raise LaunchFailed(f"the engine did not start: {_cause(outcome['error'])}") from outcome["error"]
    say("engine ready")
    trainer: AgentTrainer = outcome["trainer"]
    return trainer


def _cause(error: BaseException) -> str:
    """The root of an error; where it lies in a process that vLLM started, what that process said."""
    message, logs = root(error), ray_logs.folder()
    if ray_logs.ELSEWHERE not in message:
        return message
    if logs is None:
        return f"{message}; it is in Ray's logs of the vLLM server, on its node"
    cause = ray_logs.cause(logs)
    return f"{message}; it may be in {logs}" if cause is None else f"{cause[0]} ({cause[1]})"


def _start(config: DictConfig) -> AgentTrainer:
    """Side by side: TransferQueue and agent loops, training workers, vLLM servers (see ``AgentWorker.init_model``)."""

    def agent_loops() -> EarlyManager:
        tq.init(config.transfer_queue)
        get_rollout_replica_class(config.actor_rollout_ref.rollout.name)  # imports vLLM, which the servers' start needs
        return EarlyManager.start(config)

    with ThreadPoolExecutor(1, "agent_loops") as pool:
        starting = pool.submit(agent_loops)
        trainer = TRAINERS[config.trainer.v1.trainer_mode](config)
        trainer.global_steps = 0
        trainer.init()
        manager = starting.result()
    manager.connect(trainer.get_llm_client(), trainer.get_teacher_client(), trainer.get_reward_handles())
    trainer.begin(manager)
    return trainer
