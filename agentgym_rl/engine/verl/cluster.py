"""Start and stop Ray and the TransferQueue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf

from agentgym_rl.engine.recipe.config import EngineConfig
from agentgym_rl.engine.verl.environment import environment


class WrongPlatform(RuntimeError):
    """verl does not run on the device the recipe asks for."""


@contextmanager
def cluster(config: DictConfig, engine: EngineConfig) -> Iterator[None]:
    """Start or join Ray and open the TransferQueue; stop both on leaving.

    Raises:
        WrongPlatform: verl chose another device than ``engine.device``.
    """
    variables = environment(engine)
    os.environ.update(variables)
    from verl.plugin.platform import get_platform
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    device = get_platform().device_name
    if device != engine.device:
        hint = "use engine=cpu" if engine.device == "cuda" else "set VERL_PLATFORM=cpu"
        raise WrongPlatform(f"engine.device={engine.device}, but verl found {device!r} on this machine; {hint}")
    runtime: dict[str, Any] = get_ppo_ray_runtime_env(config)
    runtime["env_vars"].update(variables, TRANSFER_QUEUE_ENABLE="1")
    quiet: dict[str, Any] = {"log_to_driver": bool(os.environ.get("AGENTGYM_RL_DEBUG")), "logging_level": "ERROR"}
    if engine.ray_address is not None:
        ray.init(address=engine.ray_address, runtime_env=runtime, **quiet)
    else:
        # the processes of a local cluster inherit the environment and need not wait for a runtime environment
        os.environ.update(runtime["env_vars"])
        started: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
        started.pop("runtime_env", None)
        ray.init(include_dashboard=False, **started, **quiet)
    try:
        yield
    finally:
        try:
            tq.close()
        finally:
            ray.shutdown()
