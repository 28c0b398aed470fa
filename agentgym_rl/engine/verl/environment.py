"""Environment variables of every process of a run, set before verl, vLLM or TransferQueue are imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes.util import find_library

PASSED_ON = re.compile(r"(NCCL|GLOO|HF|VLLM|TORCH|AGENTGYM_RL)_\w+|(https?|no|all)_proxy", re.IGNORECASE)
"""Variables of the driver that the processes of a cluster get, too: networks, models and proxies."""

WHOLE = "AGENTGYM_RL_WHOLE"
"""``1`` where no response is aborted. :mod:`agentgym_rl.engine.platform.corrections` reads it."""

KEPT_PRODUCTS = "64"
"""Shapes for which a process on a CPU keeps what a matrix product needs; a micro-batch has about 15."""


@contextmanager
def added(variables: Mapping[str, str]) -> Iterator[None]:
    """Inside, this process has these variables, too."""
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def passed_on() -> dict[str, str]:
    """Those of this process's variables that every node of a cluster gets."""
    return {key: value for key, value in os.environ.items() if PASSED_ON.fullmatch(key)}


def cores() -> int:
    """Cores that this process may use (``taskset``)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # Linux has it


def environment(device: str, workers: int = 1) -> dict[str, str]:
    """Environment variables of driver and workers; values set by the user stay.

    Args:
        workers: training workers on this node.
    """
    variables = {
        "RAY_DEDUP_LOGS": "1",
        "HYDRA_FULL_ERROR": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VERL_LOGGING_LEVEL": "WARN",
        "TQ_LOGGING_LEVEL": "ERROR",
    }
    if device == "cuda":
        # that sampler returns no log-probabilities, but vLLM would import it, which takes seconds and a package
        variables["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
        # verl turns the cache off: before version 2.10 PyTorch wrote files in parts, which other engines read
        variables["VLLM_DISABLE_COMPILE_CACHE"] = "0"
    if device == "cpu":
        # rollouts and updates take turns, so each of them has all cores
        threads = str(max(1, cores() // workers))
        variables |= {
            "VERL_PLATFORM": "cpu",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            # lets vLLM's engine run the model in its own process; otherwise it spins on a core while another computes
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "RAY_worker_niceness": "0",
            # end those of its processes that nothing runs in
            "RAY_num_workers_soft_limit": "0",
            # keep memory between updates: otherwise every large tensor costs page faults
            "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
            "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
            # a matrix product keeps its code and buffers for the next of the same shape, up to a megabyte each and by
            # default for 1,024 shapes, in oneDNN and again in PyTorch; rows come in ever new lengths
            "ONEDNN_PRIMITIVE_CACHE_CAPACITY": KEPT_PRODUCTS,
            "LRU_CACHE_CAPACITY": KEPT_PRODUCTS,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            # threads that wait for each other give their core away; one that spins holds up the thread it waits for
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            # vLLM would compile its sampler during the first turn, which takes seconds and a C++ compiler
            "TORCHDYNAMO_DISABLE": "1",
        }
        if library := find_library("tcmalloc_minimal"):  # finds room in what tensors of other sizes left
            variables |= {"LD_PRELOAD": library, "TCMALLOC_RELEASE_RATE": "0"}
    return {key: os.environ.get(key, value) for key, value in variables.items()}
