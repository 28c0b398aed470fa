"""A process of the engine that dies ends the run with its cause, whatever the driver waits for."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

ray = pytest.importorskip("ray")

from agentgym_rl.engine.verl import cluster, liveness  # noqa: E402


@pytest.fixture(scope="module")
def worker_class():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    class Worker:
        def __init__(self):
            self.engine = SimpleNamespace(errored=False)

        def pid(self):
            return os.getpid()

        def lose_engine(self):
            self.engine.errored = True

        def work(self, seconds):
            time.sleep(seconds)
            return "done"

    yield ray.remote(Worker).options(max_concurrency=1)
    ray.shutdown()


@pytest.fixture
def actors(worker_class, monkeypatch):
    """Two single-threaded actors in the place of a trainer's."""
    by_name = {name: worker_class.remote() for name in ("busy one", "other one")}
    ray.get([actor.pid.remote() for actor in by_name.values()])
    monkeypatch.setattr(liveness, "EVERY_S", 0.1)
    monkeypatch.setattr(liveness, "processes", lambda trainer: by_name)
    yield by_name
    for actor in by_name.values():
        ray.kill(actor)


def until(watch, *names):
    """Waits until memory has been seen under these names; the test's own timeout is the limit."""
    while not {*names} <= watch.peaks.keys():
        time.sleep(0.05)


@pytest.mark.slow
def test_a_busy_process_is_no_dead_one(actors):
    before = signal.getsignal(signal.SIGUSR2)
    with liveness.watched(None) as watch:
        assert ray.get(actors["busy one"].work.remote(1)) == "done"
        until(watch, *actors)
    assert all(0.01 < watch.peaks[name] < 1 for name in actors)
    assert set(watch.peaks) == set(actors)
    assert signal.getsignal(signal.SIGUSR2) == before


@pytest.mark.slow
def test_the_memory_of_all_processes_at_once(actors):
    memory = psutil.Process().memory_full_info()
    with liveness.watched(None, alone=True) as watch:
        until(watch, "all at once", *actors)
    at_once = watch.peaks["all at once"]
    assert (
        memory.pss / liveness.GIB < at_once < memory.rss / liveness.GIB + sum(watch.peaks[name] for name in actors) + 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("wait", [lambda actor: ray.get(actor.work.remote(1000)), lambda actor: time.sleep(1000)])
def test_a_killed_process_ends_what_waits_for_another(actors, wait):
    pid = ray.get(actors["other one"].pid.remote())
    says = r"the other one died: .*last seen with 0\.\d GiB.*the same command resumes"
    with pytest.raises(liveness.EngineDied, match=says), liveness.watched(None) as watch:
        until(watch, "other one")
        os.kill(pid, signal.SIGKILL)
        wait(actors["busy one"])


@pytest.mark.slow
def test_what_the_death_made_fail_is_not_what_is_said(actors, monkeypatch):
    monkeypatch.setattr(liveness, "EVERY_S", 1000)  # what fails is faster than the watch
    pid = ray.get(actors["other one"].pid.remote())
    with pytest.raises(liveness.EngineDied, match="the other one died"), liveness.watched(None):
        os.kill(pid, signal.SIGKILL)
        raise ValueError("set algorithm.samples to 2 or more")


@pytest.mark.parametrize("meanwhile", ["look_again", "_look"])
def test_an_interrupt_by_the_watch_while_the_failure_is_looked_into(monkeypatch, meanwhile):
    def died(watch, seconds):
        watch._died("other one", "killed")

    def interrupted(watch, *args):
        watch.cause = "the other one died"
        signal.raise_signal(signal.SIGUSR2)
        return looks(watch, *args)

    monkeypatch.setattr(liveness, "EVERY_S", 1000)
    monkeypatch.setattr(liveness, "processes", lambda trainer: {})
    monkeypatch.setattr(liveness.Watch, "_look", died)
    looks = getattr(liveness.Watch, meanwhile)
    monkeypatch.setattr(liveness.Watch, meanwhile, interrupted)
    with pytest.raises(liveness.EngineDied, match="the other one died"), liveness.watched(None):
        raise ValueError("what the death made fail")


@pytest.mark.slow
def test_a_server_that_lost_its_engine(actors):
    says = "the other one died: its engine's process is gone"
    with pytest.raises(liveness.EngineDied, match=says), liveness.watched(None):
        ray.get(actors["other one"].lose_engine.remote())
        time.sleep(1000)


@pytest.mark.slow
def test_other_errors_stay_what_they_are(actors):
    with pytest.raises(ValueError, match="mine"), liveness.watched(None):
        raise ValueError("mine")
    with pytest.raises(KeyboardInterrupt), liveness.watched(None):
        raise KeyboardInterrupt


def test_rays_reasons():
    class Died(ray.exceptions.RayError):
        pass

    low = "Task was killed due to the node running low on memory. Memory on the node was 22.9GB / 23.4GB"
    assert liveness._reason(Died(low)) == "Ray ended it, because the machine ran low on memory"
    text = "The actor died.\n\tactor_id: 7f\nThe actor is dead because its node has died."
    assert liveness._reason(Died(text)) == "its node has died"


KILLED = """
import os, signal, subprocess, sys
from agentgym_rl.engine.verl import cluster
print(subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL).pid, flush=True)
with cluster._ended_with_this_process():
    os.kill(os.getpid(), signal.SIGINT if sys.argv[1:] else signal.SIGKILL)
"""


@pytest.mark.slow
def test_what_a_killed_driver_started_ends_with_it():
    killed = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    pid = int(killed.stdout.readline())
    assert killed.wait(60) == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_what_a_driver_started_outlives_its_own_end():
    """Then Ray ends its processes itself, in its order."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, "interrupted"], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    process = psutil.Process(int(ended.stdout))
    assert ended.returncode == 1 or ended.returncode == -signal.SIGINT
    assert process.is_running()
    process.kill()


def test_the_cause_of_a_workers_error():
    assert liveness.root(ValueError("one\n  two\n")) == "ValueError: two"
    invalid = ValueError(
        "1 validation error\n  Value error, not so\n    For further information visit https://errors.pydantic.dev/2/v/x"
    )
    assert liveness.root(invalid) == "ValueError: Value error, not so"
    inside = ray.exceptions.RayTaskError("save", "Traceback\n  File x\nOSError: [Errno 28] full", OSError(28, "full"))
    assert liveness.root(inside) == "OSError: [Errno 28] full"
    killed = ray.exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.\nConsider this.")
    assert liveness.root(killed) == "Ray ended it, because the machine ran low on memory"


def test_shared_memory_that_a_killed_worker_left_is_removed_and_what_a_process_holds_stays(monkeypatch):
    held, orphaned = (SharedMemory(f"verl_weights_test_{os.getpid()}_{kind}", create=True, size=4096) for kind in "ho")
    try:
        orphaned.close()
        segments = {path for path in cluster.segments() if f"test_{os.getpid()}" in path.name}
        assert len(segments) == 2
        with monkeypatch.context() as other_user:
            other_user.setattr(os, "getuid", lambda: -1)
            cluster.remove_orphaned(segments)
        assert all(path.exists() for path in segments)
        cluster.remove_orphaned({*segments, Path("/dev/shm/verl_weights_that_are_gone")})
        assert {path.name for path in segments if path.exists()} == {held.name}
    finally:
        held.close()
        held.unlink()
        resource_tracker.unregister(orphaned._name, "shared_memory")
