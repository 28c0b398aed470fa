"""Start and stop Ray and the TransferQueue."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as NodeAffinity

from agentgym_rl.engine.verl.environment import passed_on

TOKEN = (
    "if Ray runs there, the cluster's token is missing or another one here; every node needs the same: make one with "
    "`ray get-auth-token --generate`, and set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=<its file> before "
    "`ray start` and before this command (docs/clusters.md)"
)
"""The fix where Ray's token authentication refuses."""

RUN = "AGENTGYM_RL_RUN"
"""Environment variable of all processes of a running engine: what tells it from others on the machine.
:mod:`agentgym_rl.engine.platform.corrections` reads it."""

LOCAL = "local"
"""Ray's address of a new cluster on this machine. Without one it joins a cluster that runs there."""


class WrongPlatform(RuntimeError):
    """verl does not run on the device the recipe asks for."""


class RayNotStarted(RuntimeError):
    """Ray did not come up, cannot be reached, or has too few GPUs."""


class NotShared(RuntimeError):
    """A node does not see the folder of the run."""


@contextmanager
def cluster(
    config: DictConfig,
    variables: Mapping[str, str],
    ray_address: str | None = None,
    seconds: float = 300.0,
    folder: Path | None = None,
) -> Iterator[None]:
    """Start or join Ray and open the TransferQueue; stop both on leaving.

    Args:
        variables: environment variables of all processes.
        ray_address: of a running cluster; None starts one on this machine.
        seconds: how long Ray may take to start, and the GPUs of a cluster to join it.
        folder: that all nodes of a cluster must see; None for none.

    Raises:
        RayNotStarted: Ray did not come up in time, cannot be reached, or has too few GPUs.
        NotShared: a node does not see the folder.
        WrongPlatform: verl chose another device than the configuration.
    """
    variables = {**variables, RUN: uuid4().hex[:8]}
    os.environ.update(variables)
    from verl.plugin.platform import get_platform
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    device, configured = get_platform().device_name, config.trainer.device
    if device != configured:
        hint = "use engine=cpu" if configured == "cuda" else "set VERL_PLATFORM=cpu"
        raise WrongPlatform(f"engine.device={configured}, but verl found {device!r} on this machine; {hint}")
    runtime: dict[str, Any] = get_ppo_ray_runtime_env(config)
    runtime["env_vars"].update(variables, TRANSFER_QUEUE_ENABLE="1")
    started: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    settings = {key: value for key, value in started.pop("runtime_env").items() if value is not None}
    runtime["env_vars"].update(settings.pop("env_vars", {}))
    quiet: dict[str, Any] = {"log_to_driver": bool(os.environ.get("AGENTGYM_RL_DEBUG")), "logging_level": "ERROR"}
    if ray_address is not None:
        runtime["env_vars"] = passed_on() | runtime["env_vars"]
        _start(seconds, address=ray_address, runtime_env=runtime | settings, **quiet)
    else:
        # the processes of a local cluster inherit the environment and need not wait for a runtime environment
        os.environ.update(runtime["env_vars"])
        own_token(os.environ)
        own_settings = {"runtime_env": settings} if settings else {}
        _start(seconds, address=LOCAL, include_dashboard=False, **started, **own_settings, **quiet)
    before = segments()
    try:
        with nullcontext() if ray_address is not None else _ended_with_this_process():
            if ray_address is not None:
                await_gpus(config, seconds)
                if folder is not None:
                    check_shared(folder)
            yield
    finally:
        processes = psutil.Process().children(recursive=True)
        try:
            tq.close()
        finally:
            ray.shutdown()
            forget_token()
            psutil.wait_procs(processes, timeout=10)
            remove_orphaned(segments() - before)


def own_token(variables: MutableMapping[str, str]) -> None:
    """Give a cluster of this run's own a token by the environment: Ray would keep one in the user's home folder."""
    if "RAY_AUTH_TOKEN" not in variables and "RAY_AUTH_TOKEN_PATH" not in variables:
        variables["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def forget_token() -> None:
    """Ray keeps the token of this process's last cluster, and the next one may have another, or none."""
    AuthenticationTokenLoader.instance().reset_cache()


def segments() -> set[Path]:
    """Shared memory in which verl's workers hand weights to vLLM on this machine."""
    return set(Path("/dev/shm").glob("verl_weights_*"))


def remove_orphaned(orphans: set[Path]) -> None:
    """Remove those of this user that no process holds: a worker that Ray kills in the middle of a sync cannot do it."""
    held = ""
    for maps in Path("/proc").glob("[0-9]*/maps") if orphans else ():
        with suppress(OSError):  # the process has ended, or is another user's
            held += maps.read_text()
    for segment in orphans:
        with suppress(OSError):  # it is gone, or cannot be removed
            if segment.name not in held and segment.stat().st_uid == os.getuid():
                segment.unlink()


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


@contextmanager
def _sigterm_stays() -> Iterator[None]:
    """Inside and after, Ray does not take SIGTERM: its handlers would end the process without a word.

    The one of its part in C++ goes before Python's, and aborts the process three seconds after the signal.
    """
    utils: Any = ray._private.utils
    take, utils.set_sigterm_handler = utils.set_sigterm_handler, lambda _: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = take
        handler = signal.getsignal(signal.SIGTERM)  # None: not Python's
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _start(seconds: float, address: str, **options: Any) -> None:
    """``ray.init``, again while there is time: on a busy machine Ray gives its own processes no more than 30 s."""
    begun, others = time.monotonic(), set(psutil.Process().children(recursive=True))
    forget_token()
    while True:
        try:
            with _sigterm_stays():
                ray.init(address=address, **options)
            return
        except KeyboardInterrupt:
            signal.alarm(0)  # with which Ray's handler aborts this process
            rays = set(psutil.Process().children(recursive=True)) - others
            ray.shutdown()
            for process in rays:  # its two agents would stay for a minute
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            raise
        except Exception as error:  # Ray raises it bare
            ray.shutdown()
            late, local = time.monotonic() - begun, address == LOCAL
            if local and "timed out" in str(error) and late < seconds:
                continue
            what = "Ray did not start" if local else f"Ray at engine.ray_address={address} cannot be reached"
            hint = "" if local else f"; {TOKEN}"  # a wrong token is in Ray's own log only
            raise RayNotStarted(
                f"{what} ({late:.0f} s): {str(error).strip().splitlines()[0]}; engine.start_seconds={seconds:g} is how "
                f"long it may take{hint}"
            ) from error


def await_gpus(config: DictConfig, seconds: float) -> None:
    """Wait until the nodes that are still joining a cluster bring the GPUs that the run asks for.

    Raises:
        RayNotStarted: they have not; says how many there are.
    """
    rollout = config.actor_rollout_ref.rollout
    rollout_gpus = 0 if config.actor_rollout_ref.hybrid_engine else rollout.nnodes * rollout.n_gpus_per_node
    needed = config.trainer.nnodes * config.trainer.n_gpus_per_node + rollout_gpus
    deadline = time.monotonic() + seconds
    while (there := int(ray.cluster_resources().get("GPU", 0))) < needed:
        if time.monotonic() >= deadline:
            raise RayNotStarted(
                f"the run needs {needed} GPUs (engine.nodes, engine.workers, engine.rollout_workers), and the Ray "
                f"cluster has {there} after engine.start_seconds={seconds:g}; `ray status` shows its nodes"
            )
        time.sleep(1.0)


def check_shared(folder: Path) -> None:
    """Every node of the cluster must see a file that this process writes into the folder.

    Raises:
        NotShared: names the nodes that do not.
    """
    probe = folder / f".shared_{uuid4().hex}"
    probe.touch()
    try:
        working = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
        nodes = {node["NodeID"]: node["NodeManagerHostname"] for node in working}
        sees = ray.remote(num_cpus=0)(Path.exists)
        answers = [sees.options(scheduling_strategy=NodeAffinity(node, soft=False)).remote(probe) for node in nodes]
        blind = [host for host, seen in zip(nodes.values(), ray.get(answers), strict=True) if not seen]
    finally:
        probe.unlink()
    if blind:
        raise NotShared(
            f"{', '.join(blind)} cannot see the run folder {folder}, where each worker writes its part of a "
            "checkpoint; set run.dir to a folder on storage that all nodes share"
        )
