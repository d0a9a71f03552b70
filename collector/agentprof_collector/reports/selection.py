"""Which tasks a report is about, and how they are divided."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agentprof.summary import TaskSummary
from agentprof_collector.errors import TaskNotFound
from agentprof_collector.stores import Store, TaskFilter

By = Literal["step", "agent", "tool", "model"]


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
    by: By | None = None
    group_by: str | None = None
    """`name`, `outcome` or `label.KEY`."""
    limit: int | None = None
    """Rows shown; totals and groups are over all."""
    after: str | None = None
    """The `next` of the page before."""

    @property
    def filter(self) -> TaskFilter:
        """Which of many tasks."""
        return TaskFilter(ids=self.ids, name=self.name, outcome=self.outcome, labels=self.labels)

    def to_dict(self) -> dict[str, Any]:
        """What was asked for, in JSON form."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def selected(store: Store, selection: Selection) -> list[TaskSummary]:
    """The summaries the filters leave, latest start first.

    Raises:
        TaskNotFound: the one task asked for is not there.
    """
    if selection.task_id is not None:
        summary = store.task(selection.task_id)
        if summary is None:
            raise TaskNotFound(selection.task_id)
        return [summary]
    return store.tasks(selection.filter)


def without_sub_tasks(summaries: list[TaskSummary]) -> list[TaskSummary]:
    """The tasks that are not already counted in another of the list."""
    ids = {summary.task_id for summary in summaries}
    return [summary for summary in summaries if summary.parent_task_id not in ids]
