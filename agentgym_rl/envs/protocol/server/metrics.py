"""Counters for Prometheus, of one worker or of all."""

from __future__ import annotations

import os
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that names the folder in which workers share their counters (Prometheus' own)."""

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the latency classes."""


@dataclass(frozen=True, slots=True)
class WorldMetrics:
    """The counters of one world; ``errors`` and ``seconds`` have one a route, ``errors`` one a status, too."""

    open: Gauge
    created: Counter
    closed: Counter
    expired: Counter
    steps: Counter
    errors: Counter
    seconds: Histogram


class Metrics:
    """What a worker counts."""

    def __init__(self) -> None:
        own = self._own = CollectorRegistry()
        world, route, status = "world", "route", "status"
        self._open = Gauge(
            "agentgym_sessions_open", "Open sessions", [world], registry=own, multiprocess_mode="livesum"
        )
        self._created = Counter("agentgym_sessions_created", "Sessions opened", [world], registry=own)
        self._closed = Counter("agentgym_sessions_closed", "Sessions closed by their client", [world], registry=own)
        self._expired = Counter("agentgym_sessions_expired", "Sessions closed as unused", [world], registry=own)
        self._steps = Counter("agentgym_steps", "Actions answered", [world], registry=own)
        self._errors = Counter(
            "agentgym_errors", "Requests answered with an error", [world, route, status], registry=own
        )
        self._seconds = Histogram(
            "agentgym_request_seconds", "Request to reply", [world, route], registry=own, buckets=SECONDS
        )

    def of(self, world: str) -> WorldMetrics:
        return WorldMetrics(
            open=self._open.labels(world),
            created=self._created.labels(world),
            closed=self._closed.labels(world),
            expired=self._expired.labels(world),
            steps=self._steps.labels(world),
            errors=self._errors,
            seconds=self._seconds,
        )

    def page(self) -> bytes:
        """The counters in Prometheus' text format, summed over the workers."""
        if FOLDER not in os.environ:
            return generate_latest(self._own)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)
