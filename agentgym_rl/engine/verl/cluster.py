"""Start and stop Ray and the TransferQueue."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import psutil
import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf


class WrongPlatform(RuntimeError):
    """verl does not run on the device the recipe asks for."""


class RayNotStarted(RuntimeError):
    """Ray did not come up, or cannot be reached."""


@contextmanager
def cluster(
    config: DictConfig, variables: Mapping[str, str], ray_address: str | None = None, seconds: float = 300.0
) -> Iterator[None]:
    """Start or join Ray and open the TransferQueue; stop both on leaving.

    Args:
        variables: environment variables of all processes.
        ray_address: of a running cluster; None starts one on this machine.
        seconds: how long Ray may take to start.

    Raises:
        RayNotStarted: Ray did not come up in time, or cannot be reached.
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
        _start(seconds, address=ray_address, runtime_env=runtime, **quiet)
    else:
        # the processes of a local cluster inherit the environment and need not wait for a runtime environment
        os.environ.update(runtime["env_vars"])
        started: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
        started.pop("runtime_env", None)
        _start(seconds, include_dashboard=False, **started, **quiet)
    try:
        with nullcontext() if ray_address is not None else _ended_with_this_process():
            yield
    finally:
        try:
            tq.close()
        finally:
            ray.shutdown()


@contextmanager
def _ended_with_this_process() -> Iterator[None]:
    """Inside, a shell waits for the death of this process, and then kills what Ray started.

    Ray's own processes see to that, too, but its two agents first try for a minute to report it to those that are gone.
    """
    pids = [str(process.pid) for process in psutil.Process().children(recursive=True)]
    script = """trap "" INT TERM; read -r _; kill -9 "$@" 2>/dev/null"""
    shell = subprocess.Popen(["sh", "-c", script, "sh", *pids], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        shell.kill()
        shell.communicate()


def _start(seconds: float, **options: Any) -> None:
    """``ray.init``, again while there is time: on a busy machine Ray gives its own processes no more than 30 s."""
    begun = time.monotonic()
    while True:
        try:
            ray.init(**options)
            return
        except Exception as error:  # Ray raises it bare
            ray.shutdown()
            address = options.get("address")
            late = time.monotonic() - begun
            if address is None and "timed out" in str(error) and late < seconds:
                continue
            what = f"Ray at engine.ray_address={address} cannot be reached" if address else "Ray did not start"
            raise RayNotStarted(
                f"{what} ({late:.0f} s): {str(error).strip().splitlines()[0]}; engine.start_seconds={seconds:g} is how "
                "long it may take"
            ) from error
