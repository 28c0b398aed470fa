"""vLLM's engine is forked from a process that imports what it needs while the server imports the same.

In a Ray actor vLLM starts its engine anew, which then imports what the server has just imported, and the server waits.
"""

from __future__ import annotations

import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType

import ray
import wrapt

IMPORTED = ("ray", "vllm.v1.engine.core", "vllm.v1.worker.gpu_worker")
"""None of them touches a GPU, which a fork could not use then."""
SERVER = "vLLMHttpServer"
"""verl's actor that has a vLLM engine."""


class _Process(ForkServerProcess):
    """Has the environment of the server at its own start; that of the process it is forked from is older."""

    def start(self) -> None:
        self._variables = dict(os.environ)
        super().start()

    def run(self) -> None:
        os.environ.update(self._variables)
        super().run()


class _Context(ForkServerContext):
    Process = _Process


def begin(module: ModuleType) -> None:
    """As ``vllm`` begins to be imported: in a server, start the process that imports the same."""
    if SERVER not in ((ray.is_initialized() and ray.get_runtime_context().get_task_name()) or ""):
        return
    _Context().set_forkserver_preload(list(IMPORTED))
    forkserver.ensure_running()
    wrapt.register_post_import_hook(fork, "vllm.utils.system_utils")


def fork(module: ModuleType) -> None:
    """``vllm.utils.system_utils.get_mp_context`` says how processes are started; in an actor it spawns them."""
    module.get_mp_context = _Context  # type: ignore[attr-defined]


def register() -> None:
    """Effective on GPUs (:mod:`~agentgym_rl.engine.verl.environment` sets the first variable on a CPU), where nobody
    says how processes are started."""
    if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") != "0" and "VLLM_WORKER_MULTIPROC_METHOD" not in os.environ:
        wrapt.register_post_import_hook(begin, "vllm")
