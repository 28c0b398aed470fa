"""The process that vLLM's engine is forked from."""

from __future__ import annotations

import os
import re
from importlib import import_module
from inspect import getsource
from types import ModuleType

import pytest

from agentgym_rl.engine.platform import forked_engine


def _tell(connection) -> None:
    connection.send((os.environ.get("OF_NOW"), os.getppid()))


def test_a_fork_has_the_environment_of_its_own_start(monkeypatch):
    context = forked_engine._Context()
    for value in ("first", "second"):  # the process that is forked from began with the first
        monkeypatch.setenv("OF_NOW", value)
        ours, theirs = context.Pipe()
        process = context.Process(target=_tell, args=(theirs,))
        process.start()
        seen, parent = ours.recv()
        process.join(10)
        assert (seen, process.exitcode) == (value, 0) and parent != os.getpid()


def test_only_a_server_starts_it(monkeypatch):
    started, hooked = [], []
    monkeypatch.setattr(forked_engine.forkserver, "ensure_running", lambda: started.append(True))
    monkeypatch.setattr(forked_engine.wrapt, "register_post_import_hook", lambda *arguments: hooked.append(arguments))
    monkeypatch.setattr(forked_engine.ray, "is_initialized", lambda: True)
    for task in ("WorkerDict.init_model", None, "vLLMHttpServer.__init__"):
        context = type("Context", (), {"get_task_name": lambda self, task=task: task})()
        monkeypatch.setattr(forked_engine.ray, "get_runtime_context", lambda context=context: context)
        forked_engine.begin(ModuleType("vllm"))
    assert started == [True] and hooked == [(forked_engine.fork, "vllm.utils.system_utils")]


@pytest.mark.parametrize(
    ("variable", "value", "hooked"),
    [
        ("VLLM_ENABLE_V1_MULTIPROCESSING", "0", False),
        ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", False),
        (None, None, True),
    ],
)
def test_who_says_how_processes_start_is_heard(monkeypatch, variable, value, hooked):
    hooks = []
    monkeypatch.setattr(forked_engine.wrapt, "register_post_import_hook", lambda *arguments: hooks.append(arguments))
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_WORKER_MULTIPROC_METHOD"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, value)
    forked_engine.register()
    assert bool(hooks) == hooked


@pytest.mark.slow
def test_what_vllm_and_verl_have():
    asks = re.compile(r"\bget_mp_context\(\)")
    assert asks.search(getsource(import_module("vllm.v1.engine.utils").CoreEngineProcManager.__init__))
    assert all(import_module(name) for name in forked_engine.IMPORTED)
    servers = import_module("verl.workers.rollout.vllm_rollout.vllm_async_server")
    assert servers.vLLMHttpServer.__name__ == forked_engine.SERVER
    module = ModuleType("vllm.utils.system_utils")
    forked_engine.fork(module)
    assert module.get_mp_context().get_start_method() == "forkserver"
