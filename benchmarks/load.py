"""What a rollout costs: how long model and environments were idle, CPU time and memory; for
``benchmarks/rollout.py``."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import psutil

MIB = 2**20


class Busy:
    """Time in which at least one call was open. Calls may come from several threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._open, self._since, self._lock = 0, 0.0, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._open == 0:
                self._since = time.perf_counter()
            self._open += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self.seconds += time.perf_counter() - self._since


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the LLM server."""

    request_id: str
    prompt_ids: list[int]
    sampling_params: dict[str, Any]


@dataclass
class Metered:
    """An LLM server that notes when it is at work and what it was asked."""

    server: Any
    busy: Busy = field(default_factory=Busy)
    requests: dict[str, list[Request]] | None = None
    """By episode; None keeps none."""
    calls: int = 0

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        self.calls += 1
        if self.requests is not None:
            request = Request(request_id, prompt_ids, sampling_params)
            self.requests.setdefault(request_id, []).append(request)
        with self.busy:
            return await self.server.generate(
                request_id=request_id, prompt_ids=prompt_ids, sampling_params=dict(sampling_params)
            )


@dataclass
class Cost:
    """Of a block of code: ``with Cost() as cost``."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of this process."""
    servers_cpu_s: float = 0.0
    """Of the processes it started: Ray, LLM servers, engine."""
    memory_mib: float = 0.0
    """Most that this process grew by."""

    def __enter__(self) -> Cost:
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what is free goes back, so that growth is seen
        self._process = psutil.Process()
        self._memory = self._process.memory_info().rss
        self._peak, self._over = self._memory, threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)
        self._cpu, self._servers_cpu = time.process_time(), self._cpu_of_others()
        self._started = time.perf_counter()
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._started
        self.cpu_s = time.process_time() - self._cpu
        after = self._cpu_of_others()
        self.servers_cpu_s = sum(after[pid] - before for pid, before in self._servers_cpu.items() if pid in after)
        self._over.set()
        self._watch.join()
        self.memory_mib = (self._peak - self._memory) / MIB

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._over.wait(0.1):
            with open("/proc/self/statm") as file:
                self._peak = max(self._peak, page * int(file.read().split()[1]))

    def _cpu_of_others(self) -> dict[int, float]:
        """CPU seconds of each process that this one started and that still runs."""
        seconds = {}
        for process in self._process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                seconds[process.pid] = sum(process.cpu_times()[:2])
        return seconds
