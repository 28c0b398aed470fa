"""Prometheus metrics of one worker or of all."""

import os
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Prometheus' own variable: the folder in which workers share their counters."""

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the latency buckets."""

ENV = "env"
"""Label with the name of an environment."""


class Metrics:
    """The metrics of a worker, each with a label for the environment."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        counter = partial(Counter, registry=self._own)
        self.open = Gauge(
            "agentgym_sessions_open", "Open sessions", [ENV], registry=self._own, multiprocess_mode="livesum"
        )
        self.created = counter("agentgym_sessions_created", "Sessions opened", [ENV])
        self.closed = counter("agentgym_sessions_closed", "Sessions closed by their client", [ENV])
        self.expired = counter("agentgym_sessions_expired", "Sessions closed as unused", [ENV])
        self.steps = counter("agentgym_steps", "Actions answered", [ENV])
        self.errors = counter("agentgym_errors", "Requests answered with an error", [ENV, "route", "status"])
        self.seconds = Histogram(
            "agentgym_request_seconds", "Request to response", [ENV, "route"], registry=self._own, buckets=SECONDS
        )

    def page(self) -> bytes:
        """The metrics in Prometheus' text format, summed over the workers."""
        if FOLDER not in os.environ:
            return generate_latest(self._own)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
