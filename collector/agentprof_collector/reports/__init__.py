"""What can be reported on stored tasks: each report shapes JSON-ready documents and flat rows of them.

Drawing is for others: the terminal (and whatever serves pages) takes documents only, so that everything a
person sees is also in the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from agentprof_collector.reports import calls, estimates, gpu_hours, many_tasks, one_task, parts, rates
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store

Document = dict[str, Any]
ReportName = Literal["task", "tasks", "parts", "calls", "rates", "estimates", "gpu_hours"]


class Report(Protocol):
    """A module with these three functions."""

    def document(self, store: Store, selection: Selection) -> Document:
        """The report in its JSON form: money as decimal text, times as integer nanoseconds."""

    def columns(self, document: Mapping[str, Any]) -> Sequence[str]:
        """The columns of the CSV, in their order, also where there is no row."""

    def rows(self, document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The same as flat rows, with a value, or None, for each of the columns."""


REPORTS: dict[ReportName, Report] = {
    "task": one_task,
    "tasks": many_tasks,
    "parts": parts,
    "calls": calls,
    "rates": rates,
    "estimates": estimates,
    "gpu_hours": gpu_hours,
}


def to_json(document: Document) -> bytes:
    """The document as one line of JSON, in which what acts on a terminal is escaped."""
    text = msgspec.json.encode(document).decode()
    return _ACTS.sub(_escaped, text).encode()


# Beside what JSON has to escape. None of it can stand outside of a string.
_ACTS = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
