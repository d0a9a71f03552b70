"""What can be reported on stored tasks: each report shapes JSON-ready documents and flat rows of them.

Drawing is for others: the terminal (and whatever serves pages) takes documents only, so that everything a
person sees is also in the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from agentprof_collector.reports import calls, many_tasks, one_task, parts
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store

Document = dict[str, Any]
ReportName = Literal["task", "tasks", "parts", "calls"]


class Report(Protocol):
    """A module with these two functions."""

    def document(self, store: Store, selection: Selection) -> Document:
        """The report in its JSON form: money as decimal text, times as integer nanoseconds."""

    def rows(self, document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The same as flat rows, all with the same keys in the same order: the columns of the CSV."""


REPORTS: dict[ReportName, Report] = {
    "task": one_task,
    "tasks": many_tasks,
    "parts": parts,
    "calls": calls,
}


def to_json(document: Document) -> bytes:
    """The document as one line of JSON."""
    return msgspec.json.encode(document)
