"""Runs as a user starts them, servers that fail, and a look at what is left afterwards."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch
from words import once

from agentgym_rl.data import episode_store
from agentgym_rl.data.files import write_text

HERE = Path(__file__).parent
CLONED = 10
"""Global steps of cloning."""
RECIPE = (
    "experiment=smoke", "+env=maze", "logger.wandb=disabled", "run.evaluate_untrained=false", "run.save_every=1",
    "engine.start_seconds=900",
    "envs.maze.difficulty=[steps 1-4]", "envs.maze.demonstrations=48", "envs.maze.panels.test.n=8",
    "envs.maze.max_turns=8", "envs.textcraft.demonstrations=0", "envs.textcraft.max_turns=4",
    "envs.textcraft.panels.new_variants.n=2", f"cloning.epochs={CLONED}", "cloning.mini_batch_trajectories=2",
    "cloning.lr=4e-3", "mixture=dynamic", "curriculum=success_gated", "curriculum.rounds=[3,5,8]",
    "curriculum.patience=2", "algorithm.tasks_per_step=8",
)  # fmt: skip
"""Two environments, a mixture and a curriculum with a state of their own, and a checkpoint every step."""


class Server:
    """A server that fails when it is told to."""

    def __init__(self, orders: Path, *envs: str) -> None:
        self.orders, self.envs = orders, envs
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.tell("serve")
        self.start()

    def tell(self, do: str, share: float = 1.0, at: Sequence[str] = ("",)) -> None:
        write_text(self.orders, json.dumps({"do": do, "share": share, "at": list(at)}))

    def start(self) -> None:
        command = [sys.executable, str(HERE / "faulty_server.py"), str(self.port), str(self.orders), *self.envs]
        self.process = subprocess.Popen(command)

    def wait(self) -> None:
        """Return when it answers."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{self.address} does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def servers(place: Path, number: int, *envs: str) -> Iterator[list[Server]]:
    found = [Server(place / f"orders{index}.json", *envs) for index in range(number)]
    try:
        for server in found:
            server.wait()
        yield found
    finally:
        for server in found:
            server.kill()


class Run:
    """A training command in a session of its own; ``fault`` is a phase, a step and a victim of ``fault.py``."""

    def __init__(
        self,
        folder: Path,
        *overrides: str,
        recipe: Sequence[str] = RECIPE,
        fault: tuple[str, int, str] | None = None,
        group: Path | None = None,
        **variables: str,
    ) -> None:
        words = ["-m", "agentgym_rl.cli", "train"] if fault is None else [str(HERE / "fault.py"), *map(str, fault)]
        self.folder, self.before = folder, set(os.listdir("/dev/shm"))
        self.begun = time.monotonic()
        command = [sys.executable, *words, *once(*recipe, f"run.dir={folder}", *overrides)]
        self.process = subprocess.Popen(
            command if group is None else in_group(group, command),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=os.environ | variables,
        )  # fmt: skip

    def end(self, seconds: float = 1000) -> str:
        """Wait for the end; returns what was printed."""
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.seconds = time.monotonic() - self.begun
        return out

    def finish(self) -> str:
        out = self.end()
        log = self.folder / "engine.log"
        assert self.process.returncode == 0, f"{out[-4000:]}\n{log.read_text()[-4000:] if log.is_file() else ''}"
        return out

    def since_fault(self) -> float:
        """Seconds from the fault until now."""
        return time.monotonic() - float((self.folder / "fault").read_text())

    def wait_for(self, met: Callable[[], bool], seconds: float = 900) -> None:
        deadline = time.monotonic() + seconds
        while not met():
            assert self.process.poll() is None, self.end()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def kill(self) -> None:
        for pid in processes_of(self.process.pid):
            psutil.Process(pid).kill()

    def nothing_left(self, seconds: float) -> float:
        """Seconds until no process of the run is left; none holds a port then. Nor may shared memory be left."""
        begun = time.monotonic()
        while left := processes_of(self.process.pid):
            assert time.monotonic() < begun + seconds, [" ".join(psutil.Process(pid).cmdline()) for pid in left]
            time.sleep(0.2)
        took = time.monotonic() - begun
        new = set(os.listdir("/dev/shm")) - self.before
        assert not [name for name in new if not mapped(name)], new
        return took


def in_group(group: Path, command: list[str]) -> list[str]:
    """The command in a control group."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]


def processes_of(session: int) -> list[int]:
    """Live processes of a session."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


def mapped(name: str) -> bool:
    """Whether a process uses a segment of shared memory."""
    for process in psutil.process_iter():
        try:
            if any(region.path == f"/dev/shm/{name}" for region in process.memory_maps()):
                return True
        except psutil.Error:
            continue
    return not Path("/dev/shm", name).exists()


def metrics(folder: Path) -> list[dict[str, Any]]:
    file = folder / "metrics.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.is_file() else []
    return [json.loads(line) for line in lines]


def state(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return found


def played(folder: Path, step: int) -> list[Any]:
    """The training episodes of a step: what was drawn, under which limits, and what the model wrote."""
    found = episode_store.read(folder / "episodes" / f"step{step:06d}.parquet")
    return sorted((own.tags["index"], own.item_id, own.max_turns, [turn.response for turn in own.turns], own.reward)
                  for own in found)  # fmt: skip


TIMES = (
    "sync/",
    "timing",
    "perf/",
    "run/wall_s",
    "_s",
    "_frac",
    "/seconds",
    "episodes_per_s",
    "memory",
    "throughput",
)
"""In names of metrics that are times, or follow from times, and of looks at a sync, which each launch takes anew."""


def same_training(run: Path, other_run: Path, stage: str) -> int:
    """Assert that two runs drew, played, learned and ended the same; returns the number of steps compared.

    Tasks, turn limits, responses, rewards, random state, mixture and curriculum are the same; weights and numbers of
    the update differ by less than 1e-4 of their size, because sums may be taken in another order.
    """
    rows = [[row for row in metrics(folder) if f"stage/{stage}" in row] for folder in (run, other_run)]
    assert [row["step"] for row in rows[0]] == [row["step"] for row in rows[1]]
    for a, b in zip(*rows, strict=True):
        step = a["step"]
        if "rollout/episodes_per_s" in a:
            assert played(run, step) == played(other_run, step), f"step {step}"
        names = {name for name in a.keys() | b.keys() if not any(part in name for part in TIMES)}
        apart = {name: (a.get(name), b.get(name)) for name in sorted(names) if not close(a.get(name), b.get(name))}
        assert not apart, f"step {step}: {apart}"
    ends = state(run), state(other_run)
    for name in ("mixture", "curriculum", "episodes", "tokens", "updates", "global_step"):
        assert ends[0][name] == ends[1][name], name
    same_weights(run, other_run)
    return len(rows[0])


def same_weights(run: Path, other: Path) -> None:
    """Assert that two runs end with the same weights and the same random state of the worker."""
    actors = [folder / "checkpoints" / state(folder)["checkpoint"] / "actor" for folder in (run, other)]
    first, second = (torch.load(actor / "model_world_size_1_rank_0.pt", weights_only=False) for actor in actors)
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name].to_local(), second[name].to_local(), rtol=1e-4, atol=1e-6)
    randoms = [(actor / "extra_state_world_size_1_rank_0.pt").read_bytes() for actor in actors]
    assert randoms[0] == randoms[1]


def close(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and abs(a - b) <= 1e-4 * max(abs(a), abs(b)) + 1e-5)
