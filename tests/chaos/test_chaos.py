"""Faults on the real engine: training goes on, or ends with one line and resumes as if nothing had been.

``make chaos`` runs it. Each fault is a launch, and runs resume each other's folder, so the tests of a file are run in
their order.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from harness import CLONED, HERE, Run, in_group, metrics, played, same_training, servers, state

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]

STEPS = 16
HARNESS = (
    f"envs.textcraft.harness.command='sh {HERE.parent}/harnesses/curl_agent.sh'",
    "envs.textcraft.harness.grade_file=reward.txt",
)
"""A program plays one of the environments, through the gateway."""
GRPO = ("algorithm=grpo", f"algorithm.steps={STEPS}", *HARNESS)
EVOLVE = (
    "algorithm=agentevol", "algorithm.steps=2", "algorithm.tasks_per_step=40", "algorithm.samples_per_task=2", *HARNESS,
)  # fmt: skip
KILLED = 60.0
"""Most seconds from a fault to the end of the run."""
GONE = 20.0
"""Most seconds from the end of a run to that of its last process."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs; ``CHAOS_DIR`` names one that is kept, in which a further call goes on."""
    kept = os.environ.get("CHAOS_DIR")
    return Path(kept) if kept else tmp_path_factory.mktemp("chaos")


@pytest.fixture(scope="module")
def cache(place: Path) -> str:
    """All runs clone the same, so only the first one does."""
    return f"run.cache={place}/cached"


@pytest.fixture(scope="module")
def undisturbed(place: Path, cache: str) -> Path:
    run = Run(place / "undisturbed", *GRPO, cache)
    run.finish()
    report("undisturbed", launch=run.seconds)
    run.nothing_left(GONE)
    return run.folder


@pytest.fixture(scope="module")
def undisturbed_evolution(place: Path, cache: str) -> Path:
    run = Run(place / "undisturbed_evolution", *EVOLVE, cache)
    run.finish()
    return run.folder


def report(fault: str, **seconds: float) -> None:
    """Seconds of a case, shown with ``-s`` and where a test fails."""
    print(f"chaos: {fault}: " + ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()), flush=True)


def step_of(folder: Path) -> int:
    """The step that a resumed run goes on from."""
    return int(state(folder)["global_step"]) if (folder / "state.json").is_file() else CLONED


# processes of the run: each case resumes the run that the case before it broke

DEATHS = [
    ("update", "WorkerDict", "training worker 0 died"),
    ("before the sync", "vLLMHttpServer", "vLLM server 0 died"),
    ("rollout", "EngineCore", "vLLM server 0 died: its engine's process is gone"),
    ("rollout", "EarlyWorker", "agent-loop worker 0 died"),
    ("rollout", "TransferQueueController", "TransferQueue's controller died"),
]


@pytest.mark.parametrize(
    ("phase", "victim", "says"),
    [pytest.param(*case, id=case[1]) for case in DEATHS],
)
def test_a_killed_process_ends_the_run_with_one_line(
    place: Path, cache: str, phase: str, victim: str, says: str
) -> None:
    folder = place / "killed"
    run = Run(folder, *GRPO, cache, fault=(phase, step_of(folder) + 2, victim))
    out = run.end()
    ended = run.since_fault()
    assert run.process.returncode == 1, out
    errors = [line for line in out.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1 and says in errors[0] and "the same command resumes" in errors[0], out
    assert "Traceback" not in out
    report(f"{victim} killed in the {phase}", end=ended, gone=run.nothing_left(GONE))
    assert ended < KILLED


@pytest.mark.parametrize("phase", ["rollout", "update", "sync", "checkpoint"])
def test_a_killed_driver_loses_one_step_and_leaves_nothing(place: Path, cache: str, phase: str) -> None:
    folder = place / "killed"
    struck_at = step_of(folder) + 2
    run = Run(folder, *GRPO, cache, fault=(phase, struck_at, "driver"))
    out = run.end()
    assert run.process.returncode == -signal.SIGKILL, out
    report(f"driver killed in the {phase}", gone=run.nothing_left(GONE))
    assert step_of(folder) == struck_at - 1


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_saves_its_step(place: Path, cache: str, sent: str) -> None:
    folder = place / "killed"
    struck_at = step_of(folder) + 2
    run = Run(folder, *GRPO, cache, fault=("update", struck_at, sent))
    out = run.end()
    ended = run.since_fault()
    assert run.process.returncode == 130 and "saved; the same command resumes" in out, out
    report(sent, end=ended, gone=run.nothing_left(GONE))
    assert step_of(folder) == struck_at and ended < KILLED


def test_a_run_that_was_broken_again_and_again_is_the_undisturbed_one(
    place: Path, cache: str, undisturbed: Path
) -> None:
    Run(place / "killed", *GRPO, cache).finish()
    assert same_training(undisturbed, place / "killed", "grpo") > STEPS
    steps = [row["step"] for row in metrics(undisturbed) if "stage/grpo" in row and "env/maze/share" in row]
    answers = [said for step in steps for _, item, _, said, _ in played(undisturbed, step) if "textcraft" in item]
    assert answers and all(len(said) == 1 for said in answers), "the program asks once"


@pytest.mark.parametrize("phase", ["exploration", "filter", "learning"])
def test_a_driver_killed_in_agentevol(place: Path, cache: str, phase: str) -> None:
    folder = place / "killed_evolution"
    before = step_of(folder)
    run = Run(folder, *EVOLVE, cache, fault=(phase, before + 1, "driver"))
    out = run.end()
    assert run.process.returncode == -signal.SIGKILL, out
    report(f"driver killed in AgentEvol's {phase}", gone=run.nothing_left(GONE))
    assert step_of(folder) >= before


def test_agentevol_goes_on_as_if_nothing_had_been(place: Path, cache: str, undisturbed_evolution: Path) -> None:
    out = Run(place / "killed_evolution", *EVOLVE, cache).finish()
    assert "resumed at step" in out
    assert same_training(undisturbed_evolution, place / "killed_evolution", "agentevol") >= 4


FRONTIER = (
    "experiment=frontier_maze", "logger.wandb=disabled", "run.save_every=2", "engine.start_seconds=900",
    "budget.episodes=null", "algorithm.steps=6", "cloning.epochs=4", "algorithm.tasks_per_step=6",
    "algorithm.mini_batch_tasks=6", "mixture.every=1", "mixture.population=5", "mixture.elite=2",
    "mixture.min_episodes=4",
    *(f"envs.maze-corridor.panels.{panel}.n=4" for panel in ("near", "middle", "far", "validation")),
    *(f"envs.maze-{family}.panels.new_mazes.n=4" for family in ("rooms", "perfect", "tee")),
)  # fmt: skip
"""A population that changes after each step, and is saved after every other one."""


def test_a_driver_killed_while_settings_follow_the_agent(place: Path, cache: str) -> None:
    whole = Run(place / "whole_frontier", cache, recipe=FRONTIER)
    whole.finish()
    folder = place / "killed_frontier"
    run = Run(folder, cache, recipe=FRONTIER, fault=("rollout", 4 + 4, "driver"))
    out = run.end()
    assert run.process.returncode == -signal.SIGKILL, out
    assert step_of(folder) == 4 + 2
    assert any(each["died"] for each in state(folder)["mixture"]["shares"]["individuals"])
    Run(folder, cache, recipe=FRONTIER).finish()
    assert same_training(whole.folder, folder, "grpo") > 6


# environments


def test_servers_that_fail_in_every_way(place: Path, cache: str) -> None:
    """Killed in turn, then each fault by itself, then both down for 30 s, then a fault that does not end."""
    folder = place / "served"
    with servers(place, 2, "maze", "textcraft") as (first, second):
        hosts = [
            f"envs.{env}.host={{address: [{first.address},{second.address}], timeout: 5, patience: 60}}"
            for env in ("maze", "textcraft")
        ]
        run = Run(folder, "algorithm=grpo", "algorithm.steps=500", cache, *hosts)

        def steps() -> int:
            return len([row for row in metrics(folder) if "stage/grpo" in row])

        run.wait_for(lambda: steps() > 1)
        for _ in range(3):
            for server in (first, second):
                server.kill()
                server.start()
                time.sleep(3)
        for do in ("slow", "hang", "garbage", "refuse", "crash"):
            second.tell(do, share=0.2)
            time.sleep(5)
            second.tell("serve")
            if do == "crash":
                second.kill()
                second.start()
        for server in (first, second):
            server.kill()
        time.sleep(30)
        done = steps()
        for server in (first, second):
            server.start()
        run.wait_for(lambda: steps() > done + 1)

        for server in (first, second):
            server.tell("garbage")
        begun = time.monotonic()
        out = run.end(seconds=120)
        ended = time.monotonic() - begun
    assert run.process.returncode in (1, 2) and "Traceback" not in out, out
    assert "failed outside the agent" in out and "the answer is no JSON" in out, out
    report("servers", end=ended, gone=run.nothing_left(GONE))
    assert ended < KILLED
    check_faulty_episodes(folder)


def check_faulty_episodes(folder: Path) -> None:
    """Episodes hit by a fault are counted by kind and are in no other number."""
    total: Counter[str] = Counter()
    for row in (row for row in metrics(folder) if "actor/pg_loss" in row):
        episodes = episode_store.read(folder / "episodes" / f"step{row['step']:06d}.parquet")
        counted = [episode for episode in episodes if episode.ending.counts]
        learned = len(counted) - row["rollout/singleton_episodes"]
        padding = row["batch/rows_per_update"] * row["batch/updates"] - learned
        assert 0 <= padding < row["batch/updates"], "updates are of equal size"
        for env in ("maze", "textcraft"):
            own = [episode for episode in episodes if episode.env == env]
            won = [episode.success for episode in own if episode.ending.counts]
            if own:
                assert row[f"env/{env}/success"] == pytest.approx(sum(won) / len(won) if won else 0.0)
                assert row[f"env/{env}/error_rate"] == pytest.approx(1 - len(won) / len(own))
        errors = Counter(episode.ending.value for episode in episodes if not episode.ending.counts)
        errors["retried"] = sum(episode.attempts - 1 for episode in episodes)
        assert +errors == {name[7:]: value for name, value in row.items() if name.startswith("errors/")}
        total += errors
    print(f"chaos: servers: {dict(total)}")
    assert total["retried"] > 0 and set(total) <= {"retried", Ending.ENV_ERROR, Ending.TIMEOUT}
    saved = Counter(state(folder)["errors"])
    assert all(saved[kind] >= number for kind, number in total.items())


# the machine


def test_a_clock_that_jumps_changes_nothing(place: Path, cache: str, undisturbed: Path) -> None:
    path = os.pathsep.join(filter(None, [str(HERE / "clock"), os.environ.get("PYTHONPATH")]))
    run = Run(place / "jumping", *GRPO, cache, PYTHONPATH=path)
    run.finish()
    run.nothing_left(GONE)
    assert same_training(undisturbed, run.folder, "grpo") > STEPS


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 48 MB of its own."""
    folder = place / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(cache: str, small_disk: Path, undisturbed: Path) -> None:
    folder, keep = small_disk / "run", "run.keep_checkpoints=null"
    run = Run(folder, *GRPO, cache, keep)
    out = run.end()
    assert run.process.returncode == 1 and "Traceback" not in out, out
    errors = [line for line in out.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1 and "the same command resumes" in errors[0], out
    assert "could not be saved" in errors[0] or "No space left" in errors[0]
    reached = step_of(folder)
    report(f"full disk, saved up to step {reached}", gone=run.nothing_left(GONE))
    assert reached >= max(row["step"] for row in metrics(folder)) - 1
    subprocess.run(["mount", "-o", "remount,size=1g", str(small_disk)], check=True)
    Run(folder, *GRPO, cache, keep).finish()
    assert same_training(undisturbed, folder, "grpo") > STEPS
    shutil.rmtree(folder)


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group whose memory can be limited."""
    group = Path("/sys/fs/cgroup/memory") / f"agentgym_rl_{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs the right to make a control group (version 1)")
    yield group
    while left := (group / "cgroup.procs").read_text().split():  # a test that failed leaves its run
        for pid in left:
            os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.5)
    group.rmdir()


EATER = "import time; eaten = bytearray({} << 20); eaten[::4096] = bytes(len(eaten[::4096])); time.sleep(120)"


def test_memory_that_runs_out(place: Path, cache: str, memory_group: Path, undisturbed: Path) -> None:
    """Another process takes the memory of the run's control group, and the kernel ends one of the run's."""
    folder, limit = place / "tight", memory_group / "memory.limit_in_bytes"
    limit.write_text(str(2 << 30))
    refused = Run(folder, *GRPO, cache, group=memory_group)
    out = refused.end()
    assert refused.process.returncode == 2 and "GiB of memory or more" in out and "2.0 GiB" in out, out
    assert "FSDP" not in out, "nothing was launched"

    limit.write_text("-1")
    run = Run(folder, *GRPO, cache, group=memory_group)
    run.wait_for(lambda: sum("stage/grpo" in row for row in metrics(folder)) > 3)  # its memory has been seen by then
    held = dict(line.split() for line in (memory_group / "memory.stat").read_text().splitlines())
    limit.write_text(str(int(held["total_rss"]) + int(held.get("total_shmem", 0)) + (200 << 20)))
    eater = subprocess.Popen(in_group(memory_group, [sys.executable, "-c", EATER.format(700)]))
    begun = time.monotonic()
    out = run.end(seconds=120)
    ended = time.monotonic() - begun
    eater.kill()
    eater.wait()
    assert run.process.returncode == 1 and "Traceback" not in out, out
    errors = [line for line in out.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1 and re.search(r"\d died: .* last seen with .* GiB", errors[0]), out
    report("memory runs out", end=ended, gone=run.nothing_left(GONE))
    assert ended < KILLED
    limit.write_text("-1")
    Run(folder, *GRPO, cache).finish()
    assert same_training(undisturbed, folder, "grpo") > STEPS
