"""Model calls, one row each, of one task or of all selected tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentprof.rollup.calls import CallRow, call_rows
from agentprof.summary import TOKENS
from agentprof_collector.recompute import spans_of_tasks
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, selected
from agentprof_collector.stores import Store

_TASKS_AT_ONCE = 100
"""Whose spans are in memory together."""

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
    found = list(itertools.islice(_rows(store, selection), selection.limit))
    full = selection.limit is not None and len(found) == selection.limit
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "count": sum(group["calls"] for group in store.groups(selection.tops)) if full else len(found),
        "calls": [msgspec.to_builtins(row) for row in found],
    }


def _rows(store: Store, selection: Selection) -> Iterator[CallRow]:
    for summaries in selected(store, selection, _TASKS_AT_ONCE):
        spans = spans_of_tasks(store, summaries)
        for summary in summaries:
            yield from call_rows(summary.task_id, spans[summary.task_id])


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a call; `path` joins the names with " / "."""
    return [flat_row(call | {"path": " / ".join(call["path"])}, _COLUMNS) for call in document["calls"]]
