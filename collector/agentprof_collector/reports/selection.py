"""Which tasks a report is about, and how they are divided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from agentprof.model import Span
from agentprof.summary import TaskSummary
from agentprof_collector.errors import TaskNotFound
from agentprof_collector.recompute import spans_of_tasks
from agentprof_collector.stores import ListPlace, Store, TaskFilter

By = Literal["step", "agent", "tool", "model"]
RatesBy = Literal["context", "concurrency"]
"""What the speed of calls is told by."""


GROUPS: Final = 1_000
"""Groups of an answer that was not asked for another number: keys may be as many as tasks."""
GROUPS_MOST: Final = 10_000


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filters apply first; everything else is about what they leave."""

    task_id: str | None = None
    """One task only."""
    ids: tuple[str, ...] = ()
    """Only these tasks; none given: all."""
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
    by: By | RatesBy | None = None
    group_by: str | None = None
    """`name`, `outcome` or `label.KEY`."""
    groups: int | None = None
    """Groups at most, those that cost most; None: `GROUPS`."""
    limit: int | None = None
    """Rows shown; totals and groups are over all."""
    after: str | None = None
    """The `next` of the page before."""

    @property
    def tops(self) -> TaskFilter:
        """The selected tasks that are not already counted in another of them."""
        return TaskFilter(
            ids=self.ids if self.task_id is None else (self.task_id,),
            name=self.name,
            outcome=self.outcome,
            labels=self.labels,
            service=self.service,
            since_ns=self.since_ns,
            until_ns=self.until_ns,
            search=self.search,
            tops=True,
        )

    def to_dict(self) -> dict[str, Any]:
        """What was asked for, in JSON form."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def the_task(store: Store, selection: Selection) -> TaskSummary:
    """The one task that is selected.

    Raises:
        TaskNotFound: it is not there.
    """
    task_id = selection.task_id or ""
    summary = store.task(task_id)
    if summary is None:
        raise TaskNotFound(task_id)
    return summary


def the_spans(store: Store, summary: TaskSummary) -> list[Span]:
    """The spans of a task, those of its sub-tasks included.

    Raises:
        TaskNotFound: it was counted to another since, or was forgotten.
    """
    spans = spans_of_tasks(store, [summary]).get(summary.task_id)
    if spans is None:
        raise TaskNotFound(summary.task_id)
    return spans


def selected(
    store: Store, selection: Selection, at_once: int, after: ListPlace | None = None
) -> Iterator[list[TaskSummary]]:
    """The selected tasks that are not counted in another of them, latest start first, some at once.

    Args:
        store: where they are.
        selection: which.
        at_once: how many.
        after: only those that follow this place.

    Raises:
        TaskNotFound: the one task asked for is not there.
    """
    if selection.task_id is not None:
        the_task(store, selection)
    while found := store.tasks(selection.tops, after=after, limit=at_once):
        yield found
        after = ListPlace(found[-1].start_ns, found[-1].task_id)
