"""Threads of a training worker on a CPU: one beside as many as there are cores, in one launch.

The sides take turns at supervised updates of the same rows of random tokens, of unequal length; the second half of a
row carries the loss. Without a folder the model is the tiny one.

    python benchmarks/threads.py [MODEL_FOLDER] [--rows 48] [--updates 9]
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import islice
from statistics import median

from allocator import batches
from cpu_model import Worker, recipe, setting, timed
from options import positive
from rich.console import Console
from rollout import engine

from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.verl.environment import cores


def chosen(model: str | None) -> Config:
    """The engine of a run with this model."""
    tiny = ["experiment=exit_maze", "algorithm=grpo", "name=threads"]
    return load(tiny) if model is None else recipe(model, "float32")


def measure(model: str | None, rows: int, updates: int) -> dict[int, list[float]]:
    """Tokens a second of every update by number of threads; the first of each warms up and is left out."""
    rates: dict[int, list[float]] = {1: [], cores(): []}
    with Progress(Console(stderr=True)) as progress, engine(chosen(model), progress.say) as running:
        worker = Worker(running.trainer)
        for number, batch in enumerate(islice(batches(len(running.tokenizer), rows), updates + 1)):
            progress.bar("updates", number, updates + 1)
            for threads in rates:
                worker.workers.set_threads(threads)
                rates[threads].append(sum(len(row.input_ids) for row in batch) / timed(partial(worker.update, batch)))
    return {threads: of_side[1:] for threads, of_side in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="folder of a Hugging Face model; the tiny model without it")
    parser.add_argument("--rows", type=positive, default=48, help="of an update")
    parser.add_argument("--updates", type=positive, default=9, help="of each side")
    args = parser.parse_args()
    if cores() == 1:
        raise SystemExit("one core: there is nothing to compare")
    rates = measure(args.model, args.rows, args.updates)
    print(setting(args.model or "tiny", "float32", f"{args.updates} updates of {args.rows} rows"))
    for threads, of_side in rates.items():
        print(f"{threads} threads {median(of_side):8.0f} [{min(of_side):.0f}, {max(of_side):.0f}] tokens/s")
    ratios = [one / all_ for one, all_ in zip(*rates.values(), strict=True)]
    print(f"1/{cores()}: {median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}] of the tokens/s, update by update")


if __name__ == "__main__":
    main()
