"""Launch and step overhead: our launch and settings against verl's stock ones, on this machine, in one run.

Both sides train the same tiny model with GRPO on TextCraft on one CPU worker with one vLLM replica: the same number of
tasks, samples and tokens, the same agent loop. *Stock* is verl's own entry point (``python -m verl.trainer.main_ppo``)
on the CPU platform with verl's defaults for all that does not change what is computed: eight storage units,
a reward worker, the replay buffer's 2 s poll, vLLM's multi-process executor, processes started one after the other.
*Ours* is ``agentgym-rl train``. The sides alternate; medians, ranges and ratios are printed.

    python benchmarks/step_overhead.py [--repeats 3] [--steps 6]

launch    seconds from starting the command to the end of the first training step
overhead  share of a step outside generation, log-probs and update; generation is the time of a step's longest episode,
          from its first request to its last reply, so that waiting for a poll does not count as generation
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from options import positive, spread

from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.run.session import variables

TASKS, SAMPLES = 16, 4
PROMPT, RESPONSE = 256, 512
"""Most tokens of the tiny model's prompts and responses."""
LAUNCH_S, OVERHEAD = 45.0, 0.1
"""Targets: at most so many seconds, and at most that share of a step."""
RECORD = "STEP_OVERHEAD_RECORD"


def __getattr__(name: str) -> Any:
    """``StockBuffer``, for verl's workers only: importing it needs verl."""
    if name != "StockBuffer":
        raise AttributeError(name)
    from agentgym_rl.engine.verl.buffer import StockLoopBuffer

    class StockBuffer(StockLoopBuffer):
        """verl's own pause between polls; notes the longest episode of each batch."""

        poll_s = 2.0

        def _materialize_batch(self, *args: Any) -> Any:
            batch = super()._materialize_batch(*args)
            with open(os.environ[RECORD], "a") as file:
                file.write(f"{max(episode.seconds for episode in self.take_episodes().values())}\n")
            return batch

    return StockBuffer


def share_outside(row: dict[str, float], slowest_s: float) -> float:
    """Share of a step outside generation, log-probs and update."""
    work = slowest_s + sum(row[f"timing_s/{part}"] for part in ("old_log_prob", "update_actor", "update_weights"))
    return max(0.0, 1.0 - work / row["timing_s/step"])


def ending(log: str) -> str:
    """The last lines of a log that goes with its temporary folder."""
    return "".join(Path(log).read_text().splitlines(keepends=True)[-40:])


def overrides(model: Path, folder: Path, steps: int) -> list[str]:
    """Our training."""
    return [
        "experiment=smoke", "algorithm=grpo", f"model={model}", f"model.prompt_tokens={PROMPT}",
        f"model.response_tokens={RESPONSE}", f"run.dir={folder}", "cloning.epochs=0", "run.evaluate_untrained=false",
        "run.save_every=0", "logger.wandb=disabled",
        "envs.textcraft.panels.new_variants.n=1", f"algorithm.steps={steps}", f"algorithm.tasks_per_step={TASKS}",
        f"algorithm.samples_per_task={SAMPLES}", f"algorithm.mini_batch_tasks={TASKS}",
    ]  # fmt: skip


def ours(model: Path, folder: Path, steps: int) -> tuple[float, list[float], list[float]]:
    """Launch seconds, step seconds, overhead shares."""
    command = [sys.executable, "-m", "agentgym_rl.cli", "train", *overrides(model, folder, steps)]
    started = time.time()
    with open(folder.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        metrics = folder / "metrics.jsonl"
        while process.poll() is None and not (metrics.is_file() and "timing_s/step" in metrics.read_text()):
            time.sleep(0.05)
        launch = time.time() - started
        if process.wait() != 0:
            sys.exit(f"ours failed:\n{ending(log.name)}")
    rows = [row for line in metrics.read_text().splitlines() if "timing_s/step" in (row := json.loads(line))]
    later = rows[1:]
    return launch, [row["timing_s/step"] for row in later], [share_outside(r, r["rollout/slowest_s"]) for r in later]


def stock(model: Path, folder: Path, steps: int) -> tuple[float, list[float], list[float]]:
    """The same under verl's own entry point."""
    record = folder.with_suffix(".episodes")
    settings = {
        "data.custom_cls.path": "pkg://agentgym_rl.engine.verl.dataset", "data.custom_cls.name": "TaskDataset",
        "data.train_files": f"[textcraft:train_variants:{TASKS * steps}]", "data.val_files": "[textcraft:test:1]",
        "+data.agentgym.style": "compact", "+data.agentgym.max_new_tokens": 24, "+data.agentgym.invalid_limit": 2,
        "data.train_batch_size": TASKS, "data.max_prompt_length": PROMPT, "data.max_response_length": RESPONSE,
        "algorithm.adv_estimator": "grpo", "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.model.use_remove_padding": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.strategy": "fsdp2", "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.optim.lr": 1e-4, "actor_rollout_ref.actor.ppo_mini_batch_size": TASKS,
        "actor_rollout_ref.actor.use_dynamic_bsz": True, "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": SAMPLES, "actor_rollout_ref.rollout.dtype": "float32",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.max_model_len": PROMPT + RESPONSE,
        "actor_rollout_ref.rollout.enforce_eager": True, "actor_rollout_ref.rollout.free_cache_engine": False,
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.3,  # of a CPU's memory node, whose page cache is not free
        "+actor_rollout_ref.rollout.enable_sleep_mode": False, "actor_rollout_ref.rollout.calculate_log_probs": True,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True, "actor_rollout_ref.rollout.agent.num_workers": 1,
        "actor_rollout_ref.rollout.agent.default_agent_loop": "agentgym", "reward.num_workers": 1,
        "trainer.v1.sampler.custom_sampler.path": Path(__file__).resolve(),
        "trainer.v1.sampler.custom_sampler.name": "StockBuffer", "trainer.device": "cpu", "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 1, "trainer.total_training_steps": steps, "trainer.val_before_train": False,
        "trainer.logger": "[console]", "trainer.default_local_dir": folder, "+ray_kwargs.ray_init.num_gpus": 1,
        "ray_kwargs.ray_init.num_cpus": 24,
    }  # fmt: skip
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{key}={value}" for key, value in settings.items())]
    mended = (
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "RAY_worker_niceness",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
    )
    engine = recipes.load(["name=stock", "env=textcraft"]).engine
    environment = {key: value for key, value in variables(engine).items() if key not in mended}
    started, launch, rows = time.time(), 0.0, []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | environment | {RECORD: str(record), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    with open(folder.with_suffix(".log"), "w") as log:
        for line in process.stdout:
            log.write(line)
            if "timing_s/step:" in line:
                launch = launch or time.time() - started
                rows.append({key: float(value) for key, value in re.findall(r"(timing_s/\w+):([\d.e+-]+)", line)})
        if process.wait() != 0:
            log.flush()
            sys.exit(f"stock failed:\n{ending(log.name)}")
    slowest = [float(value) for value in record.read_text().split()]
    later = list(zip(rows, slowest, strict=True))[1:]
    return launch, [row["timing_s/step"] for row, _ in later], [share_outside(row, value) for row, value in later]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=positive, default=3, help="launches of each side")
    parser.add_argument(
        "--steps", type=positive, default=6, help="training steps a launch; the first is not counted as a step"
    )
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error("--steps: the first one is not counted; give two or more")
    results: dict[str, list[tuple[float, list[float], list[float]]]] = {"ours": [], "stock": []}
    with tempfile.TemporaryDirectory(prefix="step_overhead_") as name:
        folder = Path(name)
        config = recipes.load(["experiment=smoke"])
        model = tiny.build(folder / "model", config.model, asyncio.run(tiny.corpus(Resolved(config))), 0)
        for repeat in range(arguments.repeats):
            for side, run in (("ours", ours), ("stock", stock)):
                print(f"repeat {repeat + 1} of {arguments.repeats}: {side}", flush=True)
                results[side].append(run(model, folder / f"{side}{repeat}", arguments.steps))
    print(
        f"\n{os.cpu_count()} cores, GRPO, {TASKS} tasks x {SAMPLES} samples a step, {arguments.repeats} launches a side"
    )
    print("median [min, max]        ours                   stock                  ratio ours/stock")
    table = (
        ("launch, s", lambda run: [run[0]], 1),
        ("step, s", lambda run: run[1], 2),
        ("overhead of a step, %", lambda run: [100 * value for value in run[2]], 1),
    )
    for label, pick, digits in table:
        mine = [value for run in results["ours"] for value in pick(run)]
        theirs = [value for run in results["stock"] for value in pick(run)]
        ratio = median(mine) / median(theirs)
        print(f"{label:24s} {spread(mine, digits):22s} {spread(theirs, digits):22s} {ratio:.2f}")
    launch = median(run[0] for run in results["ours"])
    outside = median(value for run in results["ours"] for value in run[2])
    for what, measured, target in (("launch, s", launch, LAUNCH_S), ("overhead of a step, share", outside, OVERHEAD)):
        print(f"{what}: {measured:.2f} (target <= {target:g}: {'met' if measured <= target else 'missed'})")


if __name__ == "__main__":
    main()
