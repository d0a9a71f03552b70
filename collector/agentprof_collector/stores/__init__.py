"""What keeps spans and outcomes: the protocol every store fulfils, and the stores by name."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof.summary import TaskSummary
from agentprof_collector.errors import StoreUnusable


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cached summary of a task, and how much it was made from."""

    summary: TaskSummary
    spans: int
    """Distinct spans in the traces tied to it by tasks, its own or not, and those of engines tied by an id."""
    facts: int
    """Recorded facts the summary was made from."""


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks a question is about; every condition given must hold."""

    ids: tuple[str, ...] = ()
    """Only these; none given: all."""
    name: str | None = None
    outcome: str | None = None
    """`success`, `failure` or `unknown`."""
    labels: dict[str, str] = {}
    """Only tasks that carry all of these."""
    service: str | None = None
    """Only tasks in which this service took part."""
    since_ns: int | None = None
    """Only tasks that started then or later, ns since the epoch."""
    until_ns: int | None = None
    """Only tasks that started before."""
    search: str | None = None
    """Only tasks whose name or id contains the text, in whatever case."""
    tops: bool = False
    """Of the tasks the other conditions leave, only those whose parent is not among them."""


ALL_TASKS = TaskFilter()


class ListPlace(NamedTuple):
    """A row in the order of lists: latest start first, then by id."""

    start_ns: int
    task_id: str


class Store(Protocol):
    """Spans and facts are the only state; task rows are a cache of `roll_up` and can be made again.

    The contract, for every method that writes:

    * Durable before it returns: what was written survives the death of the process at any later moment.
    * All or nothing: a call that raises has written nothing, or, if the database broke down at the very end,
      everything; calling again is right in both cases.
    * Idempotent and in any order: calls may be repeated, split, merged and exchanged with others; what is
      read in the end allows the same summaries. Spans are append-only: a repeated span may be given twice
      by `spans_of`, and the reader removes the copies.

    All methods may be called by any thread, at the same time. A question sees what was written before it was
    asked, and waits for no writer. Errors of the database are raised as `StoreError`; the store stays usable,
    and works again as soon as their reason is gone.

    Spans are kept by trace id, beside the pairs (task id, trace id) that say in which traces a task has
    spans, and the time they arrived.
    """

    def add_spans(
        self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]], *, arrived_ns: int | None = None
    ) -> None:
        """Keep spans together with the pairs (task id, trace id) they give rise to.

        Args:
            spans: of any traces.
            pairs: of these spans, or of others.
            arrived_ns: when they arrived, by the clock of the collector, ns since the epoch: never less than
                in the call before; None: now.
        """

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """All spans of the traces, copies included, in no order."""

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """The traces paired with any of the tasks."""

    def traces_tied(self, trace_ids: Collection[str]) -> set[str]:
        """The traces and all that tasks tie to them, over any number of tasks and traces."""

    def traces_by_id(self, call_ids: Collection[str], engine_ids: Collection[str]) -> set[str]:
        """The traces in which a call, or a span of an engine, has one of the ids (`agentprof.rollup.joins`).

        Of an id that stands in many traces the first `ids.FIRST_TRACES`, in order: enough to see that it tells no
        request from another. Other traces may be among the answers.

        Args:
            call_ids: looked for among the ids of calls.
            engine_ids: looked for among those of engines.
        """

    def arrived_since(self, arrived_ns: int) -> set[str]:
        """The traces of which spans, or outcomes or measured energy of their tasks, arrived later than that."""

    def added_up_to(self) -> int:
        """The time last given to `set_added_up_to`; 0 if none was."""

    def set_added_up_to(self, arrived_ns: int) -> None:
        """Note that all tasks of spans and outcomes that arrived until then have their rows."""

    def add_outcomes(self, facts: Sequence[OutcomeFact], *, arrived_ns: int | None = None) -> None:
        """Keep outcomes recorded later than the spans; `arrived_ns` as of `add_spans`."""

    def outcomes_of(self, task_ids: Collection[str]) -> list[OutcomeFact]:
        """The recorded outcomes of the tasks, oldest first."""

    def add_windows(self, windows: Sequence[EnergyWindow], *, arrived_ns: int | None = None) -> None:
        """Keep measured energy of endpoints; `arrived_ns` as of `add_spans`."""

    def windows_of(self, servers: Collection[str], start_ns: int, end_ns: int) -> list[EnergyWindow]:
        """The distinct windows that lie at least partly in a span of time, in no order.

        Args:
            servers: endpoints in lower case, as the windows name them.
            start_ns: begin of the span, ns since the epoch.
            end_ns: its end.
        """

    def traces_between(self, start_ns: int, end_ns: int) -> set[str]:
        """The traces of cached tasks that lie at least partly in a span of time, ns since the epoch."""

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """Cache summaries; `rows` are all tasks that have spans in the traces.

        Of two rows of one task the one made from more spans holds, of equals the one made from more facts,
        of equals the one written last. A cached task that lies wholly in the traces and is not among the
        rows is none any more (a root that arrived late made it part of another) and leaves the cache.
        """

    def tasks(
        self, which: TaskFilter = ALL_TASKS, *, after: ListPlace | None = None, limit: int | None = None
    ) -> list[TaskSummary]:
        """Cached summaries, latest start first, then by id.

        Args:
            which: the tasks that are listed.
            after: only what follows this place.
            limit: at most so many.
        """

    def groups(
        self, which: TaskFilter = ALL_TASKS, group_by: str | None = None, *, most: int | None = None
    ) -> list[dict[str, Any]]:
        """The groups of `agentprof.rollup.many.many`, figure by figure, of the tasks that are left.

        Args:
            which: the tasks; sub-tasks of others among them are left out whether or not `tops` is set.
            group_by: `name`, `outcome` or `label.KEY`; None makes one group of all.
            most: groups at most, as `agentprof.rollup.many.dearest` chooses them; None: all.

        Raises:
            ValueError: `group_by` is none of these.
        """

    def task(self, task_id: str) -> TaskSummary | None:
        """The cached summary of one task."""

    def task_ids(self, begin: str, end: str = "") -> list[str]:
        """Cached ids that begin and end with the texts, in order, at most 100."""

    def forget(self, before_ns: int) -> int:
        """Remove what is old, and make its space usable again.

        Traces go in which nothing has happened since: all their tasks ended before, their last span and the
        last outcome of their tasks arrived before, and the same holds of all traces tied to them by tasks.
        With them go the pairs, rows and outcomes of their tasks. Measured energy goes by its own time, but for what
        was measured while a task ran that is left: it may be added up again.

        Args:
            before_ns: ns since the epoch.

        Returns:
            How many spans were removed, copies included.
        """

    def close(self) -> None:
        """Release the database; the store is not usable afterwards."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


STORES: dict[str, str] = {"duckdb": "agentprof_collector.stores.duckdb:DuckDbStore"}
"""Import strings, resolved when used: a store's client library is needed only by who uses the store."""


def is_there(path: Path) -> bool:
    """Whether there is something where a database file is looked for.

    Raises:
        StoreUnusable: nothing can be there: the name is too long, or the folder may not be looked into.
    """
    try:
        return path.exists()
    except OSError as error:
        raise StoreUnusable(path, f"cannot be opened ({error.strerror or error})") from error


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
