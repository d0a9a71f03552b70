"""Model calls, one row each, of one task or of all selected tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentprof.rollup.calls import CallRow, call_rows
from agentprof.summary import TOKENS
from agentprof_collector.recompute import spans_of_tasks
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, selected, without_sub_tasks
from agentprof_collector.stores import Store

# In the order they follow each other in a call.
_PHASES = (
    "failed_attempt",
    "backoff",
    "connect",
    "network",
    "queue",
    "prefill",
    "wait",
    "generation",
    "model",
    "client",
)
_SECTIONS = ("system", "tools", "tool_results", "user", "assistant")
_NESTED = {
    "phases_ns": tuple(f"phases_ns.{phase}" for phase in _PHASES),
    "phase_sources": tuple(f"phase_sources.{phase}" for phase in _PHASES),
    "input_bytes": tuple(f"input_bytes.{section}" for section in _SECTIONS),
    "tokens": tuple(f"tokens.{name}" for name in TOKENS),
}
_COLUMNS = tuple(column for field in CallRow.__struct_fields__ for column in _NESTED.get(field, (field,)))


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Calls in the order they started, task by task."""
    summaries = without_sub_tasks(selected(store, selection))
    spans = spans_of_tasks(store, summaries)
    found: list[CallRow] = []
    for summary in summaries:
        found += call_rows(summary.task_id, spans[summary.task_id])
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "count": len(found),
        "calls": [msgspec.to_builtins(row) for row in found[: selection.limit]],
    }


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a call; `path` joins the names with " / "."""
    return [flat_row(call | {"path": " / ".join(call["path"])}, _COLUMNS) for call in document["calls"]]
