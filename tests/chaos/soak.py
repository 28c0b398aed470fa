"""A long run without an engine: ``python tests/chaos/soak.py``; does memory grow?

Everything of a run but verl is real: stages, GRPO's credit, mixture, curriculum, episodes on two servers over HTTP,
stores, metrics, states. A scripted policy (the oracle, or a random one for half of the episodes) takes the place of the
model, and updates do nothing. At a tenth of all requests the servers answer garbage,
refuse, or do not answer. Memory is read
every ten steps; the slope is that of a straight line through the readings of the second half.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

sys.path.append(str(Path(__file__).parents[1]))  # harness.py needs words.py of tests/

from harness import metrics, servers

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.recipe.compose import identity, load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import to_dict
from agentgym_rl.engine.run.folder import RunFolder
from agentgym_rl.engine.run.metrics_log import MetricsLog
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.run.stages import Stages
from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import open_host
from agentgym_rl.rollout.policies.scripted import Oracle, Random
from agentgym_rl.rollout.recorder import Advantages

WARM = 0.5
"""Share of the steps that the slope leaves out."""
FLAT = 1.0
"""KiB a step: 2,000 steps may add 2 MiB."""


class ScriptedTrainer:
    """Plays episodes of a scripted policy in the place of :class:`agentgym_rl.engine.verl.trainer.AgentTrainer`."""

    def __init__(self, run: Resolved, seed: int) -> None:
        self.host = open_host(run.hosts["maze"])
        self.settings = run.rules
        self.policies = Oracle(), Random(seed)
        self.random = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.global_steps = 0
        self.memory: list[tuple[int, float]] = []

    @property
    def sampler(self) -> ScriptedTrainer:
        return self

    weights = learner = sampler

    def batches(self, number: int, steps: int, rows: Any, *_: Any) -> Iterator[list[Rollout]]:
        asked = [(group, row, sample) for group, row in enumerate(rows(number, 0))
                 for sample in range(row["__rollout_n__"])]  # fmt: skip
        begun = time.monotonic()
        self.step_episodes = self.loop.run_until_complete(self._play([(row, sample) for _, row, sample in asked]))
        self.step_metrics, self.timing_raw = {}, {"gen": time.monotonic() - begun}
        groups = zip(asked, self.step_episodes, strict=True)
        counted = [Rollout(episode=episode, group=str(group), kept=[str(at)])
                   for at, ((group, _, _), episode) in enumerate(groups) if episode.ending.counts]  # fmt: skip
        sizes = Counter(rollout.group for rollout in counted)
        yield [rollout for rollout in counted if sizes[rollout.group] > 1]
        if number % 10 == 0:
            self.memory.append((number, psutil.Process().memory_info().rss / 1024))
        if number % 100 == 0:
            print(f"step {number}: {self.memory[-1][1] / 1024:.1f} MiB", flush=True)

    async def _play(self, asked: list[tuple[dict[str, Any], int]]) -> list[Episode]:
        return await asyncio.gather(*(self._episode(row, sample) for row, sample in asked))

    async def _episode(self, row: dict[str, Any], sample: int) -> Episode:
        env = self.host.open("maze", {"style": "compact"})
        try:
            policy = self.policies[self.random.random() < 0.5]
            episode = await policy.run(env, Task.parse(row["item_id"]), self.settings, sample)
        finally:
            await env.close()
        episode.tags = dict(row["tags"])
        return episode

    def learn(self, rows: Any, loss: Any, **_: Any) -> tuple[dict[str, float], int]:
        return {}, 1

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        return []

    def rollouts(self, rows: Any, **_: Any) -> list[Rollout]:
        return []

    def begin_models(self) -> None: ...

    def reset_optimizer(self) -> None: ...

    def restore(self, folder: Path | None) -> None: ...

    def save(self) -> str:
        name = f"global_step_{self.global_steps}"
        (Path(self.checkpoints) / name).mkdir(parents=True)
        return name


def slope(readings: list[tuple[int, float]]) -> float:
    """KiB a step, by least squares."""
    line = statistics.linear_regression([float(step) for step, _ in readings], [size for _, size in readings])
    return line.slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="training steps (default: 2000)")
    parser.add_argument("--share", type=float, default=0.1, help="of the requests at which a server fails")
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="soak_") as place, servers(Path(place), 2, "maze") as both:
        config = load([
            "experiment=smoke", "env=maze", "algorithm=grpo", "algorithm.tasks_per_step=3",
            "algorithm.samples_per_task=2", "algorithm.mini_batch_tasks=3", f"algorithm.steps={chosen.steps}",
            "cloning.epochs=0", "run.evaluate_untrained=false", "run.save_every=50", "~envs.textcraft",
            "mixture=dynamic",
            "mixture.tasks=difficulty", "logger.wandb=disabled", "run.min_counted_training=0.1",
            f"envs.maze.host={{address: [{','.join(server.address for server in both)}], timeout: 1, patience: 60}}",
            f"run.dir={place}/run", "envs.maze.max_turns=8", "envs.maze.difficulty=[steps 1-4]",
        ])  # fmt: skip
        folder = RunFolder(Path(config.run.dir), identity(config), resume=True)
        log, state = MetricsLog(folder.path, to_dict(config), 0), folder.load_state()
        config.envs["maze"].panels.clear()
        resolved = Resolved(config)
        trainer: Any = ScriptedTrainer(resolved, config.seed)
        trainer.checkpoints = folder.checkpoints
        run = EngineRun(
            resolved=resolved, trainer=trainer, folder=folder, state=state, log=log,
            encoder=None, demonstrations=[],
            bar=lambda *_: None, say=print, stop=lambda: False,
        )  # fmt: skip
        for server in both:
            server.tell("garbage,refuse,hang", chosen.share, at=("/create", "/reset", "/step"))
        before, begun = [psutil.Process(server.process.pid).memory_info().rss for server in both], time.monotonic()
        Stages(run, None).complete()
        seconds = time.monotonic() - begun
        log.close()
        after = [psutil.Process(server.process.pid).memory_info().rss for server in both]
        rows = metrics(folder.path)
    half = [measured for measured in trainer.memory if measured[0] >= WARM * chosen.steps]
    found = slope(half)
    print(f"{len(rows)} steps in {seconds:.0f} s, {state.episodes} episodes; outside the agent: {state.errors}")
    start, middle, end = (size / 1024 for _, size in (trainer.memory[0], half[0], half[-1]))
    print(f"memory of the run: {start:.1f} MiB at the first step, {middle:.1f} in the middle, {end:.1f} at the end")
    print(f"slope of the second half: {found:.2f} KiB a step (at most {FLAT:g})")
    for number, (a, b) in enumerate(zip(before, after, strict=True)):
        print(f"memory of server {number}: {a / 2**20:.1f} MiB before, {b / 2**20:.1f} after")
    sys.exit(found > FLAT)


if __name__ == "__main__":
    main()
