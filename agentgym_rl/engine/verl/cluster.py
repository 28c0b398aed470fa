"""Start and stop Ray and the TransferQueue."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf


class WrongPlatform(RuntimeError):
    """verl does not run on the device the recipe asks for."""


@contextmanager
def cluster(config: DictConfig, variables: Mapping[str, str], ray_address: str | None = None) -> Iterator[None]:
    """Start or join Ray and open the TransferQueue; stop both on leaving.

    Args:
        variables: environment variables of all processes.
        ray_address: of a running cluster; None starts one on this machine.

    Raises:
        WrongPlatform: verl chose another device than the configuration.
    """
    os.environ.update(variables)
    from verl.plugin.platform import get_platform
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    device, wanted = get_platform().device_name, config.trainer.device
    if device != wanted:
        hint = "use engine=cpu" if wanted == "cuda" else "set VERL_PLATFORM=cpu"
        raise WrongPlatform(f"engine.device={wanted}, but verl found {device!r} on this machine; {hint}")
    runtime: dict[str, Any] = get_ppo_ray_runtime_env(config)
    runtime["env_vars"].update(variables, TRANSFER_QUEUE_ENABLE="1")
    quiet: dict[str, Any] = {"log_to_driver": bool(os.environ.get("AGENTGYM_RL_DEBUG")), "logging_level": "ERROR"}
    if ray_address is not None:
        ray.init(address=ray_address, runtime_env=runtime, **quiet)
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
