"""Figures for Prometheus. None names a tenant, a task of a client or a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class StateCollector(Collector):
    """Reads the number of verifications by state when Prometheus asks."""

    def __init__(self, count_states: Callable[[], dict[str, int]]) -> None:
        self.count_states = count_states

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily("evokernel_verifications", "Verifications in the journal by state", labels=["state"])
        counts = self.count_states()
        for state in ("queued", "running", "done", "failed", "cancelled"):
            gauge.add_metric([state], counts.get(state, 0))
        yield gauge


class Metrics:
    """Counters of one server."""

    def __init__(self, count_states: Callable[[], dict[str, int]]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(StateCollector(count_states))
        common: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("evokernel_requests", "HTTP requests", ["method", "route", "status"], **common)
        self.ended = Counter("evokernel_verifications_ended", "Verifications that ended since the start", ["state", "reason"], **common)
        self.reused = Counter("evokernel_outcomes_reused", "Verifications answered with an identical earlier outcome", **common)
        self.refused = Counter("evokernel_refused", "Verifications refused because a limit was reached", ["limit"], **common)
        self.verify_seconds = Histogram("evokernel_verification_seconds", "From start to end", buckets=SECONDS, **common)
        self.wait_seconds = Histogram("evokernel_queue_seconds", "From acceptance to start", buckets=SECONDS, **common)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)
