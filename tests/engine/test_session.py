"""Which runs share a running engine."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.processor import has_bfloat16
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import train as training
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.run.session import Session
from agentgym_rl.engine.verl import cluster, launch
from agentgym_rl.engine.verl import environment as processes
from agentgym_rl.engine.verl.mapping import verl_config


class Engine:
    """Counts launches and what each trainer was told."""

    def __init__(self, monkeypatch):
        self.launched, self.open = [], 0
        monkeypatch.setattr(cluster, "cluster", self.cluster)
        monkeypatch.setattr(launch, "launch", self.launch)

    @contextmanager
    def cluster(self, settings, variables, ray_address=None, seconds=300.0, folder=None):
        self.open += 1
        yield
        self.open -= 1

    def launch(self, settings, start_seconds, say):
        calls = []
        trainer = SimpleNamespace(
            told=calls,
            actor_rollout_wg=SimpleNamespace(set_threads=lambda threads: calls.append(("threads", threads))),
            weights=SimpleNamespace(remember_base=lambda folder: calls.append(("base", folder.is_dir()))),
            configure=lambda config: calls.append(("configure", config.algorithm.adv_estimator)),
        )
        self.launched.append(trainer)
        return trainer


@pytest.fixture
def engine(monkeypatch):
    return Engine(monkeypatch)


@cache
def composed(model, *overrides):
    config = load(["experiment=ablation", "engine.threads=3", *overrides])
    return config, verl_config(Resolved(config), model, Path("runs") / config.name)


def run(session, *overrides, base=False, model="model"):
    """The trainer a run gets."""
    config, settings = composed(model, *overrides)
    return session.trainer(settings, config.engine, Progress(Console(quiet=True)), base=base)


@pytest.mark.slow
def test_runs_that_differ_in_what_a_step_reads_share_an_engine(engine):
    with Session(several=True) as session:
        first = run(session, "algorithm=agentevol")
        for overrides in (
            ["algorithm=grpo"], ["algorithm=exit"], ["algorithm=gigpo"], ["algorithm=dpo"], ["algorithm=reinforce_pp"],
            ["algorithm=grpo", "algorithm.lr=1e-3", "algorithm.loss.clip=0.1", "algorithm.loss.entropy=0.01"],
            ["algorithm=grpo", "algorithm.loss.kl=0.01", "algorithm.loss=gspo", "algorithm.loss.clip_high=0.3"],
            ["algorithm.optimizer={weight_decay: 0.1, betas: [0.5, 0.9], clip_grad: 0.5, warmup_steps: 3}"],
            ["mixture=dynamic", "envs.maze.share=0", "name=other", "cloning.epochs=3", "run.control=true"],
        ):  # fmt: skip
            assert run(session, *overrides) is first
        assert engine.open == 1 and len(engine.launched) == 1
        assert first.told[:2] == [("threads", 3), ("base", True)]
        assert [what for what, _ in first.told[2:]] == ["configure"] * 9
    assert engine.open == 0


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=1"],
        ["algorithm=ppo"],
        ["rollout.max_new_tokens=12"],
        ["envs.textcraft.options.goals=8"],
        ["engine.workers=2"],
        ["engine.env={NCCL_SOCKET_IFNAME: eth1}"],
    ],
)
def test_other_runs_get_an_engine_of_their_own(engine, overrides):
    with Session(several=True) as session:
        first = run(session, "algorithm=grpo")
        assert run(session, "algorithm=grpo", *overrides) is not first
        assert engine.open == 1, "one at a time"
        assert run(session, "algorithm=grpo") is not first, "the first is gone"
    assert engine.open == 0 and len(engine.launched) == 3


@pytest.mark.slow
def test_another_model_is_another_engine(engine):
    with Session(several=True) as session:
        assert run(session) is not run(session, model="elsewhere")


@pytest.mark.slow
def test_runs_with_a_critic_share_one_where_the_critic_is_the_same(engine):
    with Session(several=True) as session:
        first = run(session, "algorithm=ppo")
        assert run(session, "algorithm=ppo", "algorithm.level=turn", "algorithm.critic_warmup=3") is first
        assert run(session, "algorithm=ppo", "algorithm.critic_lr=1e-4") is not first


@pytest.mark.parametrize(("base", "expected"), [(False, []), (True, [("base", True)])])
def test_a_single_run_remembers_its_base_only_if_it_goes_back(engine, base, expected):
    with Session(several=False) as session:
        assert run(session, base=base).told[1:] == expected


def test_rollouts_and_updates_have_all_cores_in_turn(monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert processes.environment("cpu")["OMP_NUM_THREADS"] == "8"
    assert processes.environment("cpu", workers=2)["OMP_NUM_THREADS"] == "4"
    assert processes.environment("cpu")["OMP_WAIT_POLICY"] == "ACTIVE", "what the user sets stays"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert processes.environment("cpu")["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "OMP_NUM_THREADS" not in processes.environment("cuda")


def test_a_run_leaves_its_variables_to_no_other(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(processes, "cores", lambda: 8)
    monkeypatch.setattr(training, "_locked", lambda run, *_: seen.append(dict(os.environ)))
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "AGENTGYM_RL_MINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    names = ("OMP_NUM_THREADS", "AGENTGYM_RL_MINE", "TOKENIZERS_PARALLELISM")
    for overrides in (["engine.env={AGENTGYM_RL_MINE: a, TOKENIZERS_PARALLELISM: no}"], ["engine.workers=2"]):
        config = load(["experiment=ablation", f"run.dir={tmp_path}", *overrides])
        training.train(Resolved(config), Console(quiet=True))
        assert [os.environ.get(name) for name in names] == [None, None, "true"]
    assert [[of_run.get(name) for name in names] for of_run in seen] == [["8", "a", "no"], ["4", None, "true"]]


PRODUCTS = """
import ctypes, torch
def used():
    found = ctypes.c_size_t()
    ctypes.CDLL(None).MallocExtension_GetNumericProperty(b"generic.current_allocated_bytes", ctypes.byref(found))
    return found.value
def products(lengths):
    for length in lengths:
        torch.ones(length, 256, dtype=torch.bfloat16) @ torch.ones(256, 256, dtype=torch.bfloat16)
products(range(100, 110))
before = used()
products(range(110, 710))
print(used() - before)
"""


@pytest.mark.skipif(not has_bfloat16(), reason="oneDNN multiplies bfloat16 where the processor does")
def test_a_process_of_a_cpu_run_keeps_little_of_matrix_products(monkeypatch):
    """Rows have many lengths; oneDNN keeps code for 1,024 of them unless told otherwise."""
    ours = processes.environment("cpu")
    if "LD_PRELOAD" not in ours:
        pytest.skip("tcmalloc tells how much memory is taken")
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    peaks = []
    for variables in (ours, {**ours, **dict.fromkeys(names, "1024")}):
        ran = subprocess.run(
            [sys.executable, "-c", PRODUCTS], env=os.environ | variables, capture_output=True, check=True
        )
        peaks.append(int(ran.stdout))
    assert peaks[0] < peaks[1] / 3
    assert not set(names) & processes.environment("cuda").keys()


def test_processes_of_a_cpu_run_take_their_memory_from_tcmalloc_where_it_is(monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(processes, "find_library", {"tcmalloc_minimal": "libtcmalloc_minimal.so.4"}.get)
    assert processes.environment("cpu")["LD_PRELOAD"] == "libtcmalloc_minimal.so.4"
    assert "LD_PRELOAD" not in processes.environment("cuda")
    monkeypatch.setenv("LD_PRELOAD", "/mine.so")
    assert processes.environment("cpu")["LD_PRELOAD"] == "/mine.so"
    monkeypatch.delenv("LD_PRELOAD")
    monkeypatch.setattr(processes, "find_library", lambda _: None)
    without = processes.environment("cpu")
    assert "LD_PRELOAD" not in without
    assert {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} <= without.keys()


@pytest.mark.skipif(find_library("tcmalloc_minimal") is None, reason="needs tcmalloc (libtcmalloc-minimal4)")
def test_tcmalloc_is_loaded(monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    ran = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/maps').read())"],
        env=os.environ | processes.environment("cpu"), capture_output=True, text=True,
    )  # fmt: skip
    assert "libtcmalloc_minimal" in ran.stdout and ran.stderr == ""
