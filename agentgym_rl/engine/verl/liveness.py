"""The death of a process of the engine ends a run within seconds, with its cause.

Without it the driver may wait for ever (a weight sync to a vLLM server that is gone), or end in what followed from the
death instead of the death.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import ray
from ray.exceptions import RayError

if TYPE_CHECKING:  # actors import this module, too
    from agentgym_rl.engine.verl.trainer import AgentTrainer

EVERY_S, ANSWER_S = 2.0, 5.0
"""Pause between two looks at all processes; how long a look at the end of a run may take."""
SUM_EVERY = 5
"""Looks from one sum of their memory to the next, because the kernel walks all their pages for it."""
GIB = 1 << 30


class EngineDied(RuntimeError):
    """A process of the engine is gone."""


@contextmanager
def watched(trainer: AgentTrainer, alone: bool = False) -> Iterator[Watch]:
    """Inside, the death of a process of the engine raises in the main thread.

    Args:
        alone: all processes of the run are children of this one, so their memory at once can be summed.

    Yields:
        The watch, which has seen how much memory each process takes.

    Raises:
        EngineDied: which process, why, and the memory it was last seen with. It takes the place of whatever the death
            made fail.
    """
    watch = Watch(processes(trainer), alone)
    previous = signal.signal(signal.SIGUSR2, watch.interrupt)
    watch.start()
    try:
        try:
            yield watch
        except Exception as error:  # whatever verl and Ray raise when a process is gone
            if (cause := watch.look_again()) is not None:
                raise EngineDied(cause) from error
            raise
    except KeyboardInterrupt:  # also one that comes before it looks again
        if watch.cause is not None:
            raise EngineDied(watch.cause) from None
        raise
    finally:
        watch.end()
        signal.signal(signal.SIGUSR2, previous)


def processes(trainer: AgentTrainer) -> dict[str, Any]:
    """Ray's actors that a run cannot do without, by what they are."""
    groups = {
        "training worker": trainer.actor_rollout_wg.workers,
        "vLLM server": trainer.weights.servers.handles,
        "agent-loop worker": trainer.agent_loop_manager.agent_loop_workers,
    }
    actors = {f"{what} {number}": process for what, group in groups.items() for number, process in enumerate(group)}
    actors["TransferQueue's controller"] = ray.get_actor("TransferQueueController", namespace="transfer_queue")
    return actors


def _state(actor: Any) -> tuple[str, int, bool]:
    """Inside an actor: its machine and process, and whether it is a vLLM server that has lost its engine."""
    engine = getattr(actor, "engine", None)  # other actors have none
    errored = getattr(engine, "errored", False)  # that of a worker cannot tell
    return socket.gethostname(), os.getpid(), bool(errored)


class Watch:
    """Asks all actors again and again for a sign of life; a busy one may take its time, a dead one answers at once."""

    def __init__(self, actors: Mapping[str, Any], alone: bool = False) -> None:
        self.actors = actors
        self.alone = alone
        self.cause: str | None = None
        self._asked: dict[Any, str] = {}
        self._pids: dict[str, int] = {}
        """Of actors on this machine."""
        self._memory: dict[str, int] = {}
        """Bytes that an actor and its children were last seen with."""
        self.peaks: dict[str, float] = {}
        """GiB that they had at most, each process by itself; with ``alone`` also those of all processes at once."""
        self._ended = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="liveness", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def interrupt(self, number: int, frame: Any) -> None:
        """The signal handler of the main thread. Nothing else than KeyboardInterrupt ends a wait of Ray's."""
        if not self._ended.is_set():
            raise KeyboardInterrupt

    def look_again(self) -> str | None:
        """The cause, if a process is gone: what failed in the main thread may have been faster than the watch.

        Answers to questions from before are no news, and a server may notice a moment later that it has no engine.
        From now on the watch interrupts nothing.
        """
        self._ended.set()
        with self._looking:
            for _ in range(2):
                self._asked.clear()
                self._look(ANSWER_S)
                if self.cause is not None:
                    break
                time.sleep(1.0)
        return self.cause

    def _watch(self) -> None:
        for look in count():
            if self._ended.wait(EVERY_S):
                return
            with self._looking:
                if self.cause is None:
                    self._look(0.0)
                if self.alone and look % SUM_EVERY == 0:
                    self._highest("all at once", _together())
            if self.cause is not None:
                if not self._ended.is_set():
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
                return

    def _look(self, seconds: float) -> None:
        """Ask who has answered, and take in the answers that come within ``seconds``."""
        for name in set(self.actors) - set(self._asked.values()):
            self._asked[self.actors[name].__ray_call__.remote(_state)] = name
        answered, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=seconds)
        for answer in answered:
            name = self._asked.pop(answer)
            try:
                host, pid, errored = ray.get(answer)
            except RayError as error:
                self._died(name, _reason(error))
                continue
            if errored:
                self._died(name, "its engine's process is gone")
            if host == socket.gethostname():
                self._pids[name] = pid
        for name, pid in self._pids.items():
            now, most = _bytes(pid)
            self._memory[name] = now or self._memory.get(name, 0)
            self._highest(name, most)

    def _highest(self, name: str, size: int) -> None:
        self.peaks[name] = max(self.peaks.get(name, 0.0), round(size / GIB, 2))

    def _died(self, name: str, why: str) -> None:
        used = f"; it was last seen with {self._memory[name] / GIB:.1f} GiB" if self._memory.get(name) else ""
        machine = psutil.virtual_memory()
        of = f"{machine.percent:.0f}% of this machine's {machine.total / GIB:.0f} GiB are in use"
        self.cause = self.cause or f"the {name} died: {why}{used} ({of}); the same command resumes"


def _bytes(pid: int) -> tuple[int, int]:
    """Memory of a process and its children, now and the sum of each one's peak; 0 where it is gone."""
    try:
        process = psutil.Process(pid)
        both = [(each.memory_info().rss, _peak(each.pid)) for each in (process, *process.children(recursive=True))]
    except (psutil.Error, OSError):
        return 0, 0
    return sum(now for now, _ in both), sum(max(pair) for pair in both)


def _together() -> int:
    """Bytes of this process and its children now; what several of them share counts once (proportional set size)."""
    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error, OSError):  # it has ended meanwhile
            total += process.memory_full_info().pss
    return total


def _peak(pid: int) -> int:
    """Most bytes that a process has had; 0 where the system does not tell."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) << 10 if match else 0


LOW = "running low on memory"
"""Ray's words where it ended a process for its memory."""


def _reason(error: RayError) -> str:
    """Ray's words on a death, without identifiers and common causes."""
    text = " ".join(str(error).split())
    for pattern in (LOW, r"Worker exit detail: ([^.]*)", r"is dead because ([^.]*)"):
        if match := re.search(pattern, text):
            return match[1] if match.groups() else "Ray ended it, because the machine ran low on memory"
    return text[:200]


_LINK = "https://errors.pydantic.dev/"
"""Where pydantic's errors end with a line that says nothing else."""


def root(error: BaseException) -> str:
    """Kind and last line of an error; that of a worker ends with the kind and text of its cause."""
    if isinstance(error, RayError) and LOW in str(error):
        return _reason(error)  # its last lines are advice
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and _LINK not in line]
    last = lines[-1] if lines else ""
    return last if isinstance(error, RayError) else f"{type(error).__name__}: {last}"
