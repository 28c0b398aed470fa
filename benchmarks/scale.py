"""What the driver spends on a training step, by the number of its episodes; no model, no GPU.

A GRPO step with everything but the model: the real TransferQueue, agent-loop processes that hand over episodes of 20
turns of ``--tokens``, the real replay buffer, advantages, rows, metrics, mixture, curriculum and files of a run
(``simulated.py`` says what is real). The groups of a step end one after the other, 1,024 episodes within ``--over``
seconds; those of a model end over minutes.

    python benchmarks/scale.py [--episodes 256 1024 4096 8192] [--repeats 3] [--over 7.5] [--tokens 150] [--units 2]

work   seconds of CPU that driver and queue (controller, storage units) spend while the driver is in a part; on an idle
       machine about the time that the part takes, and not longer because other programs run
clock  seconds that the part takes on this machine
verl   what verl's own trainer does in the same place; ours is everything else, looks at the queue among it
before from the moment at which the last group is in the queue to the start of the update, when GPUs wait; a part in
       which that moment falls has all its work there; after: behind the start of the update
pause  between two looks at the queue; an end is noticed up to so much later. It delays the update, and is no work
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from options import positive, spread

STEP_S, SHARE, BEFORE_S = 300.0, 0.05, 2.0
"""The step that the share is of, in seconds, and the bars."""
GROUP, NODE = 16, 8
"""Episodes of a group, and GPUs of a node."""
QUEUE = ("TransferQueueController", "SimpleStorageUnit")
Phases = dict[str, dict[str, tuple[float, float]]]
"""Of each phase of a step, by part: seconds of work and seconds on the clock."""


@dataclass(frozen=True, slots=True)
class Lap:
    """Time from one change of phase or part to the next."""

    phase: str
    part: str
    work: float
    begun: float
    """On the clock of all processes, as the end is."""
    ended: float


class Clock:
    """Time by phase and part; that of a part is without the parts that it calls."""

    def __init__(self) -> None:
        self.queue: list[psutil.Process] = []
        self.phase = "before"
        self.laps: list[Lap] = []
        self._parts: list[str] = []
        self._last = (0.0, 0.0)

    def _lap(self) -> None:
        queue = sum(sum(process.cpu_times()[:2]) for process in self.queue)
        now = time.process_time() + queue, time.perf_counter()
        if self._parts:
            self.laps.append(Lap(self.phase, self._parts[-1], now[0] - self._last[0], self._last[1], now[1]))
        self._last = now

    @contextmanager
    def part(self, name: str, phase: str | None = None) -> Iterator[None]:
        self._lap()
        self.phase = phase or self.phase
        self._parts.append(name)
        try:
            yield
        finally:
            self._lap()
            self._parts.pop()

    def watch(self, owner: Any, method: str, name: str, phase: str | None = None) -> None:
        """Count what a function does as a part of this name; it may begin a phase."""
        function: Callable[..., Any] = getattr(owner, method)

        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            with self.part(name, phase):
                return function(*arguments, **named)

        setattr(owner, method, watched)

    def pool(self, *_: Any) -> Beside:
        """Stands where the driver has a thread for what need not wait."""
        return Beside(self)

    def take(self, arrived: float) -> Phases:
        """What was spent since the last call; "generation" ends where the last group arrived."""
        laps, self.laps, phases = self.laps, [], Phases()
        for lap in laps:
            late = lap.phase == "generation" and lap.ended > arrived
            of_phase = phases.setdefault("before" if late else lap.phase, {})
            work, clock = of_phase.get(lap.part, (0.0, 0.0))
            begun = max(lap.begun, arrived) if late else lap.begun
            of_phase[lap.part] = work + lap.work, clock + lap.ended - begun
        return phases


class Beside(ThreadPoolExecutor):
    """Does at once, and counts as a phase of its own, what another thread would do meanwhile."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(1)
        self.clock = clock

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        phase = self.clock.phase
        with self.clock.part("rest", "beside"):
            future.set_result(function(*arguments, **named))
        self.clock.phase = phase
        return future


def watch(clock: Clock) -> None:
    """Name the parts of a step."""
    import simulated
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    from agentgym_rl.algorithms.grpo import GRPO
    from agentgym_rl.engine.run import run, stages
    from agentgym_rl.engine.run.folder import RunFolder
    from agentgym_rl.engine.run.metrics_log import MetricsLog
    from agentgym_rl.engine.verl import buffer, fields, learner, sampler
    from agentgym_rl.engine.verl import rows as queue
    from agentgym_rl.engine.verl.by_rows import ByRows

    vars(learner)["ThreadPoolExecutor"] = clock.pool
    clock.watch(buffer.EpisodeBuffer, "_wait_for_next_poll", "pause", "generation")
    clock.watch(buffer.EpisodeBuffer, "_sync_metadata_from_transfer_queue", "look at the queue")
    clock.watch(sampler.Sampler, "submit", "verl: submit tasks", "generation")
    clock.watch(ReplayBuffer, "_materialize_batch", "verl: take the batch", "before")
    clock.watch(ByRows, "_compute_old_log_prob", "numbers of old log-probabilities")
    clock.watch(learner, "upsample_batch_to_divisible_size", "verl: padding")
    clock.watch(PPOTrainer, "_update_actor", "verl: start the update", "after")
    clock.watch(PPOTrainer, "_compute_metrics", "verl: metrics of the batch")
    clock.watch(simulated.SimulatedGroup, "compute_log_prob", WORKERS)
    clock.watch(buffer, "read_episodes", "episodes from the queue")
    clock.watch(learner.Learner, "balance", "share out rows")
    clock.watch(queue, "get_seqlen_balanced_partitions", "verl: equal loads")
    clock.watch(queue, "ratio_metrics", "ratios of tokens")
    clock.watch(fields, "write", "write advantages and weights")
    clock.watch(fields, "advantage_metrics", "metrics of advantages")
    clock.watch(GRPO, "rows", "advantages of groups")
    clock.watch(run.EngineRun, "_observe", "mixture and curriculum")
    clock.watch(sys.modules["agentgym_rl.algorithms.policy_gradient"], "diagnostics", "diagnostics")
    clock.watch(stages, "episode_metrics", "episode metrics")
    clock.watch(RunFolder, "write_episodes", "episode files")
    clock.watch(MetricsLog, "log", "metrics file")


def measure(
    sizes: list[int], repeats: int, gpus: int, loops: int | None, units: int | None, over: float, tokens: int
) -> dict[int, dict[str, Any]]:
    """Steps of each size, the smallest first; the first step of each warms up."""
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"
    import ray
    import torch
    from simulated import engine, settings, stage

    torch.set_num_threads(1)  # work is then time on an idle machine
    clock, by_size = Clock(), {}
    watch(clock)
    loops_override = [] if loops is None else [f"rollout.workers={loops}"]
    ray.init(num_cpus=128, include_dashboard=False, object_store_memory=1 << 28, log_to_driver=False)
    try:
        with engine([*settings(max(sizes), gpus), *loops_override], units) as manager:
            clock.queue = [process for process in psutil.Process().children(recursive=True) if is_queue(process)]
            for episodes in sorted(sizes):
                by_size[episodes] = measured = {"steps": []}
                overrides = [*settings(episodes, gpus), *loops_override]
                with tempfile.TemporaryDirectory(prefix="scale_") as name, stage(manager, Path(name), overrides) as run:
                    algorithm, run.run.saver.writer = run._algorithm("grpo"), clock.pool()
                    manager.plan(over * episodes / 1024, tokens)
                    for number in range(repeats + 1):
                        with clock.part("rest"):
                            run._unit("grpo", algorithm, number)
                        spent = clock.take(manager.arrived())
                        measured["steps"] += [spent] if number else []
                        print(f"{episodes} episodes, step {number} of {repeats}", file=sys.stderr, flush=True)
                    measured["pause"] = run.run.trainer.replay_buffer.poll_interval
                    config = run.run.trainer.config
                measured["loops"] = config.actor_rollout_ref.rollout.agent.num_workers
                measured["units"] = units or config.transfer_queue.backend.SimpleStorage.num_data_storage_units
                measured["memory"] = {"driver": peak([psutil.Process()]), "queue": peak(clock.queue)}
                print(json.dumps(measured), file=sys.stderr, flush=True)
    finally:
        ray.shutdown()
    return by_size


def is_queue(process: psutil.Process) -> bool:
    return any(name in " ".join(process.cmdline()) for name in QUEUE)


def peak(processes: list[psutil.Process]) -> float:
    """Most memory that they had, in GiB, added up."""
    lines = [Path(f"/proc/{process.pid}/status").read_text() for process in processes]
    return sum(int(text.split("VmHWM:")[1].split()[0]) for text in lines) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=positive, nargs="+", default=[256, 1024, 4096, 8192], help="of a step")
    parser.add_argument("--repeats", type=positive, default=3, help="steps of each size, after one that warms up")
    parser.add_argument("--gpus", type=positive, default=8, help="of the run that is simulated, eight a node")
    parser.add_argument("--loops", type=positive, help="agent-loop processes; as the run would have by itself")
    parser.add_argument("--units", type=positive, help="storage units of the queue, 0.4 GB each; likewise")
    parser.add_argument("--over", type=float, default=7.5, help="seconds within which 1,024 episodes end")
    parser.add_argument("--tokens", type=positive, default=150, help="of a turn, two thirds of them a response")
    args = vars(parser.parse_args())
    sizes, gpus = args.pop("episodes"), args["gpus"]
    if uneven := [size for size in sizes if size % GROUP]:
        parser.error(f"--episodes {uneven[0]}: groups have {GROUP}")
    if gpus > NODE and gpus % NODE:
        parser.error(f"--gpus {gpus}: a node has {NODE}")
    show(measure(sizes, **args))


def show(by_size: dict[int, dict[str, Any]]) -> None:
    """Print the tables."""
    sizes = sorted(by_size)
    loops, units = (by_size[sizes[-1]][name] for name in ("loops", "units"))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}; {loops} agent-loop processes, {units} storage units")
    print(f"seconds of work a step, median [min, max] of {len(by_size[sizes[0]]['steps'])} steps; episodes:")
    print(row("", [f"{size:,}" for size in sizes]))
    for phase, title in PHASES.items():
        names = {name for size in sizes for step in by_size[size]["steps"] for name in step.get(phase, {})}
        names -= NOT_COUNTED
        cost = {name: median(part(by_size[sizes[-1]]["steps"], phase, name)) for name in names}
        if names:
            print(title)
        for name in sorted(cost, key=lambda name: -cost[name]):
            print(row(f"  {name}", [spread(part(by_size[size]["steps"], phase, name), 2) for size in sizes]))
    print("together")
    for title, of in SUMS.items():
        print(row(f"  {title}", [spread([of(step) for step in by_size[size]["steps"]], 2) for size in sizes]))
    print(row("  pause", [f"{by_size[size]['pause']:.2f}" for size in sizes]))
    for process in ("driver", "queue"):
        print(row(f"  most memory, {process}, GiB", [f"{by_size[size]['memory'][process]:.1f}" for size in sizes]))
    largest = sizes[-1]
    most, wait, clock, added = (median(map(of, by_size[largest]["steps"])) for of in list(SUMS.values())[2:])
    at, bar = f"{largest:,} episodes:", f"bar {BEFORE_S:g}"
    print(f"{at} both are {most / STEP_S:.1%} of a {STEP_S:g} s step (bar {SHARE:.0%}: {met(most < STEP_S * SHARE)})")
    print(f"{at} the step is {added / STEP_S:.1%} longer by it; the rest is beside episodes and update")
    print(f"{at} ours and the pause delay the update by {wait:.2f} s ({bar}: {met(wait < BEFORE_S)})")
    print(f"{at} on the clock by {clock:.2f} s ({bar}: {met(clock < BEFORE_S)})")


PHASES = {
    "generation": "while episodes run",
    "before": "before the update",
    "beside": "beside update or next rollout, in a thread",
    "after": "after the update",
}
WORKERS = "training workers"
NOT_COUNTED = {"pause", WORKERS}


def part(steps: list[Phases], phase: str, name: str) -> list[float]:
    return [step.get(phase, {}).get(name, (0.0, 0.0))[0] for step in steps]


def work(step: Phases, *, ours: bool) -> float:
    """All work of a step: ours, or verl's."""
    parts = chain.from_iterable(of_phase.items() for of_phase in step.values())
    return sum(work for name, (work, _) in parts if name.startswith("verl") != ours and name not in NOT_COUNTED)


def own_parts(step: Phases, phase: str) -> dict[str, tuple[float, float]]:
    """What the driver does in a phase that is ours, the pause among it."""
    return {name: times for name, times in step[phase].items() if not name.startswith("verl") and name != WORKERS}


def delay(step: Phases, *, clock: bool) -> float:
    """What the update waits for that is ours: the pause, and work or time on the clock."""
    return sum(times[clock or name == "pause"] for name, times in own_parts(step, "before").items())


def longer(step: Phases) -> float:
    """What is ours of the time in which neither episodes run nor the update: that before it, and that after it."""
    return delay(step, clock=True) + sum(clock for _, clock in own_parts(step, "after").values())


SUMS: dict[str, Callable[[Phases], float]] = {
    "verl's": partial(work, ours=False),
    "ours": partial(work, ours=True),
    "both": lambda step: work(step, ours=True) + work(step, ours=False),
    "ours and pause before the update": partial(delay, clock=False),
    "the same on the clock": partial(delay, clock=True),
    "on the clock, with after the update": longer,
}


def met(good: bool) -> str:
    return "met" if good else "missed"


def row(label: str, cells: Sequence[str]) -> str:
    return f"{label:36s}" + "".join(f"{cell:>22s}" for cell in cells)


if __name__ == "__main__":
    main()
