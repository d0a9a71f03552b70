"""A store in which a test can hold up, fail and count the writes, and a list that can be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Generic, Self, TypeVar

from agentprof.model import Span
from agentprof_collector.recompute import pairs_of
from agentprof_collector.stores import TaskRow
from agentprof_collector.stores.duckdb import DuckDbStore

PATIENCE_S = 30.0
_T = TypeVar("_T")


class Noted(Generic[_T]):
    """What happened, in order."""

    def __init__(self) -> None:
        self.items: list[_T] = []
        self._changed = threading.Condition()

    def note(self, item: _T) -> None:
        """Take note of something."""
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[list[_T]], bool]) -> list[_T]:
        """Everything, when it is so."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.items), PATIENCE_S), self.items
            return list(self.items)


class WatchedStore(DuckDbStore):
    """In memory, unless there is a path."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)
        self.failure: Exception | None = None
        """Raised by every write of spans, until it is None again."""
        self.failure_of_rows: Exception | None = None
        """The same of rows of tasks."""
        self.refused_trace: str | None = None
        """A span of this trace breaks the write, or the reading, that it is in."""
        self.go_on = threading.Event()
        """Writes of spans wait for it."""
        self.go_on.set()
        self.writes: Noted[int] = Noted()
        """Spans of each write, when it begins."""

    def add_spans(
        self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]], *, arrived_ns: int | None = None
    ) -> None:
        """Write, if it may."""
        self.writes.note(len(spans))
        assert self.go_on.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        if self.refused_trace in {span.trace_id for span in spans}:
            raise ValueError(f"{self.refused_trace} cannot be written")
        super().add_spans(spans, pairs, arrived_ns=arrived_ns)

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """Read, if nothing breaks it."""
        if self.refused_trace in trace_ids:
            raise ValueError(f"{self.refused_trace} cannot be read")
        return super().spans_of(trace_ids)

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """Write, if it may."""
        if self.failure_of_rows is not None:
            raise self.failure_of_rows
        super().put_tasks(rows, trace_ids)

    def __enter__(self) -> Self:
        return self

    def arrived(self, *spans: Span, at: int | None = None) -> list[Span]:
        """Keep spans as a collector does; the spans."""
        self.add_spans(spans, pairs_of(spans), arrived_ns=at)
        return list(spans)
