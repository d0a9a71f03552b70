"""What tokens and successes cost on GPUs paid by the hour, over many tasks, at the utilisation their calls give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from agentprof.config import ConfigError, load_config
from agentprof.money import with_plain_amounts
from agentprof.pricing.names import server_spellings
from agentprof.rollup.calls import call_rows
from agentprof.rollup.gpu_hours import GpuHourCosts, GpuHourRow
from agentprof_collector.errors import AgentprofError
from agentprof_collector.recompute import spans_of_tasks
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, selected
from agentprof_collector.stores import Store

_TASKS_AT_ONCE = 100
_NESTED = {
    "usd_per_million_tokens": ("busy", "with_idle"),
    "usd_per_million_output_tokens": ("busy", "with_idle"),
    "usd_per_success": ("busy_low", "busy_high", "with_idle_low", "with_idle_high"),
}
_COLUMNS = tuple(
    column
    for field in GpuHourRow.__struct_fields__
    for column in ([f"{field}.{name}" for name in _NESTED[field]] if field in _NESTED else [field])
)


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """A row for each entry of `gpu_hours` in agentprof.yaml that has calls, in their order.

    The span of time is that of the selection, and where it is open that of its tasks.
    """
    try:
        entries = load_config().gpu_hours
    except ConfigError as error:
        raise AgentprofError(str(error)) from error
    costs, tasks = GpuHourCosts(entries), 0
    start_ns, end_ns = selection.since_ns, selection.until_ns
    for summaries in selected(store, selection, _TASKS_AT_ONCE) if entries else ():
        tasks += len(summaries)
        if selection.since_ns is None:
            start_ns = min(summary.start_ns for summary in summaries)  # the latest come first
        if selection.until_ns is None:
            end_ns = max(end_ns or 0, *(summary.end_ns for summary in summaries))
        spans = spans_of_tasks(store, summaries)
        for summary in summaries:
            # Of a task that was counted to another since, or was forgotten, nothing is left.
            if summary.calls and summary.task_id in spans:
                costs.add(summary.outcome, call_rows(summary.task_id, spans[summary.task_id]))
    rows: list[GpuHourRow] = []
    if start_ns is not None and end_ns is not None:
        names = {name for server in costs.servers for name in server_spellings(server)}
        rows = costs.rows(start_ns, end_ns, store.windows_of(names, start_ns, end_ns))
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "entries": len(entries),
        "tasks": tasks,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "count": len(rows),
        "rows": with_plain_amounts(msgspec.to_builtins(rows, builtin_types=(Decimal,))),
    }


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an entry."""
    return [flat_row(row, _COLUMNS) for row in document["rows"]]
