"""What keeps spans and outcomes: the protocol every store fulfils, and the stores by name."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec

from agentprof.model import OutcomeFact, Span
from agentprof.summary import TaskSummary


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cached summary of a task, and how much it was made from."""

    summary: TaskSummary
    spans: int
    """Distinct spans the summary was made from."""
    facts: int
    """Recorded facts the summary was made from."""


class Store(Protocol):
    """Spans and facts are the only state; task rows are a cache of `roll_up` and can be made again.

    The contract, for every method that writes:

    * Durable before it returns: what was written survives the death of the process at any later moment.
    * All or nothing: a call that raises has written nothing.
    * Idempotent and in any order: calls may be repeated, split, merged and exchanged with others; what is
      read in the end allows the same summaries. Spans are append-only: a repeated span may be given twice
      by `spans_of`, and the reader removes the copies.

    Spans are kept by trace id, beside the pairs (task id, trace id) that say in which traces a task has
    spans. Errors of the database are raised as `StoreError`.
    """

    def add_spans(self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]]) -> None:
        """Keep spans together with the pairs (task id, trace id) they give rise to."""

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """All spans of the traces, copies included, in no order."""

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """The traces paired with any of the tasks."""

    def add_outcome(self, fact: OutcomeFact) -> None:
        """Keep an outcome recorded later than the spans."""

    def outcomes_of(self, task_ids: Collection[str]) -> list[OutcomeFact]:
        """The recorded outcomes of the tasks, oldest first."""

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """Cache summaries; `rows` are all tasks that have spans in the traces.

        Of two rows of one task the one made from more spans holds, of equals the one made from more facts,
        of equals the one written last. A cached task that lies wholly in the traces and is not among the
        rows is none any more (a root that arrived late made it part of another) and leaves the cache.
        """

    def tasks(self, *, name: str | None = None, outcome: str | None = None) -> list[TaskSummary]:
        """Cached summaries, latest start first, then by id.

        Args:
            name: only tasks of this name.
            outcome: only `success`, `failure` or `unknown`.
        """

    def task(self, task_id: str) -> TaskSummary | None:
        """The cached summary of one task."""

    def task_ids(self, begin: str, end: str = "") -> list[str]:
        """Cached ids that begin and end with the texts, in order, at most 100."""

    def close(self) -> None:
        """Release the database; the store is not usable afterwards."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


STORES: dict[str, str] = {"duckdb": "agentprof_collector.stores.duckdb:DuckDbStore"}
"""Import strings, resolved when used: a store's client library is needed only by who uses the store."""


def open_store(path: Path | None, *, read_only: bool = False) -> Store:
    """The store of a database file.

    Args:
        path: created if absent, unless read only; None keeps everything in memory.
        read_only: writing fails; several processes may read at once.

    Raises:
        StoreError: missing, held by another process, or not usable.
    """
    module, name = STORES["duckdb"].split(":")
    store: Store = getattr(importlib.import_module(module), name)(path, read_only=read_only)
    return store
