"""What the collector counts of itself, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from agentprof.model import Span

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meters:
    """All counters of one collector; each has its own registry, so that several may live in one process."""

    def __init__(self) -> None:
        # The time of creation of every counter doubles the text and serves nobody here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "agentprof_requests",
            "Export requests by what carried them, what they held, and their answer.",
            ("transport", "signal", "answer"),
            registry=self._registry,
        )
        self._spans = self._counter("spans_stored", "Spans stored, copies included.")
        self._spans_left_out = self._counter(
            "spans_left_out", "Spans that cannot be kept, for want of an identity or a start."
        )
        self._values_lost = self._counter(
            "values_lost", "Attribute values left out, of a wrong type or size."
        )
        self._records_dropped = self._counter(
            "records_dropped", "Log records and metrics that say nothing about a task."
        )
        self.commit_seconds = self._histogram("commit_seconds", "Time of one write to the store.", _SECONDS)
        self._commit_requests = self._histogram(
            "commit_requests", "Requests stored in one write.", (1, 2, 4, 8, 16, 32, 64, 128)
        )
        self.failed_commits = self._counter("commits_failed", "Writes to the store that failed.")
        self.tasks_added_up = self._counter("tasks_added_up", "Summaries written, again for each change.")
        self.tasks_not_added_up = self._counter("tasks_not_added_up", "Summaries that could not be made.")
        self.add_up_seconds = self._histogram("add_up_seconds", "Time of one round of adding up.", _SECONDS)
        self.spans_forgotten = self._counter("spans_forgotten", "Spans removed because of their age.")

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Show a figure that is read when it is asked for."""
        Gauge(f"agentprof_{name}", meaning, registry=self._registry).set_function(value)

    def stored(self, spans: Sequence[Span], *, group_size: int) -> None:
        """Count one write."""
        self._spans.inc(len(spans))
        self._commit_requests.observe(group_size)

    def left_out(self, spans: int, values: int, records: int) -> None:
        """Count what of a request was not kept."""
        self._spans_left_out.inc(spans)
        self._values_lost.inc(values)
        self._records_dropped.inc(records)

    def text(self) -> bytes:
        """All figures in the format of `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(f"agentprof_{name}", meaning, registry=self._registry)

    def _histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"agentprof_{name}", meaning, buckets=buckets, registry=self._registry)
