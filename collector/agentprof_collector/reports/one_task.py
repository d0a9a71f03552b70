"""One task: its whole summary; as rows, its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentprof.summary import TOKENS
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, the_task
from agentprof_collector.stores import Store

_FIGURES = ("path_ns", "busy_ns", "calls", *(f"tokens.{name}" for name in TOKENS), "cost_usd")
_COLUMNS = (
    "path",
    "kind",
    "runs",
    "errors",
    *(f"self.{figure}" for figure in _FIGURES),
    *(f"total.{figure}" for figure in _FIGURES),
)


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """The summary of the selected task."""
    return the_task(store, selection).to_dict()


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a node of the profile; `path` joins the names with " / "."""
    return [flat_row(node | {"path": " / ".join(node["path"])}, _COLUMNS) for node in document["nodes"]]
