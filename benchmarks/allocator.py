"""Where the memory of a run on a CPU comes from: one training worker with other allocators and caches, in one run.

ours       what the processes of a run get where the system has tcmalloc (Debian's libtcmalloc-minimal4)
all shapes the same, but oneDNN and PyTorch keep matrix products of 1,024 shapes, their default
glibc      the C library's allocator, told to keep what was freed: what they get elsewhere

A side launches the engine and makes supervised updates of four rows, every row of another length; all sides the same
ones. Memory is the worker's own share (PSS). The model is a folder of a Hugging Face model.

    python benchmarks/allocator.py MODEL_FOLDER [--updates 40] [--repeats 2] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from functools import partial
from itertools import islice
from random import Random
from statistics import median

import psutil
from cpu_model import APART, MICRO_TOKENS, Worker, recipe, setting, timed
from options import positive
from rich.console import Console
from rollout import engine

from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.rollout.supervised import Example

ROWS, SHORTEST = 4, 128
SIDES: dict[str, dict[str, str]] = {
    "ours": {},
    "all shapes": {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1024", "LRU_CACHE_CAPACITY": "1024"},
    "glibc": {"LD_PRELOAD": ""},
}
"""Environment variables of a side, where they are not those of a run."""


def batches(vocabulary: int, rows: int = ROWS) -> Iterator[list[Example]]:
    """Random tokens without end; the second half of a row carries the loss."""
    rng = Random(0)
    while True:
        sizes = [rng.randint(SHORTEST, MICRO_TOKENS) for _ in range(rows)]
        yield [
            Example([rng.randrange(vocabulary) for _ in range(size)], [float(2 * at >= size) for at in range(size)])
            for size in sizes
        ]


def resident() -> float:
    """GiB of the training worker."""
    (worker,) = [process for process in psutil.Process().children(recursive=True) if "WorkerDict" in process.name()]
    return float(worker.memory_full_info().pss) / (1 << 30)


def measure(model: str, dtype: str, updates: int) -> dict[str, list[float]]:
    """Tokens a second of every update and GiB after it; the first two, which warm up, are left out."""
    measured: dict[str, list[float]] = {"rates": [], "gib": []}
    with Progress(Console(stderr=True)) as progress, engine(recipe(model, dtype), progress.say) as running:
        worker = Worker(running.trainer)
        for number, batch in enumerate(islice(batches(len(running.tokenizer)), updates + 2)):
            progress.bar("updates", number, updates + 2)
            seconds = timed(partial(worker.update, batch))
            measured["rates"].append(sum(len(row.input_ids) for row in batch) / seconds)
            measured["gib"].append(resident())
    return {key: values[2:] for key, values in measured.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a Hugging Face model")
    parser.add_argument("--updates", type=positive, default=40, help="of a launch")
    parser.add_argument("--repeats", type=positive, default=2, help="launches of each side")
    parser.add_argument("--dtype", choices=list(APART), default="float32", help="of the arithmetic")
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args.model, args.dtype, args.updates)))
        return
    if find_library("tcmalloc_minimal") is None:
        raise SystemExit("there is no tcmalloc here; install Debian's libtcmalloc-minimal4")
    launches: dict[str, list[dict[str, list[float]]]] = {side: [] for side in SIDES}
    for _ in range(args.repeats):
        for side, variables in SIDES.items():
            print(f"{side}: launching", file=sys.stderr)
            ran = subprocess.run(
                [sys.executable, *sys.argv, "--side"], env=os.environ | variables, stdout=subprocess.PIPE, check=True
            )
            launches[side].append(json.loads(ran.stdout.splitlines()[-1]))
    counts = f"{args.updates} updates, {args.repeats} launches of each side"
    print(setting(args.model, args.dtype, counts))
    show(launches)


def show(launches: dict[str, list[dict[str, list[float]]]]) -> None:
    """Rates and memory of every side, and how ours compares with each other one."""
    rates = {side: [rate for measured in of_side for rate in measured["rates"]] for side, of_side in launches.items()}
    most = {side: [max(measured["gib"]) for measured in of_side] for side, of_side in launches.items()}
    for side in launches:
        speeds, gib = rates[side], most[side]
        print(
            f"{side:10s} {median(speeds):6.1f} [{min(speeds):.1f}, {max(speeds):.1f}] tokens/s, "
            f"worker at most {median(gib):.2f} [{min(gib):.2f}, {max(gib):.2f}] GiB"
        )
    for other in list(launches)[1:]:
        speed = median(ours / theirs for ours, theirs in zip(rates["ours"], rates[other], strict=True))
        memory = median(most["ours"]) / median(most[other])
        print(f"ours/{other}: {speed:.2f} of the tokens/s, update by update, {memory:.2f} of the memory")


if __name__ == "__main__":
    main()
