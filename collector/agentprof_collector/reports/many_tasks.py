"""Many tasks: one row a task, latest start first, and groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, Final

import msgspec

from agentprof.money import EXACT, with_plain_amounts
from agentprof.rollup.many import dearest, row
from agentprof.summary import SCHEMA, TIMELINE, TOKENS, TaskSummary
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import GROUPS, Selection
from agentprof_collector.stores import ListPlace, Store

_FARTHEST = 2**63
_HINT: Final = (
    "Those that cost most. More with groups=N; fewer tasks with since, until, name, outcome, label, service."
)
_TASK_COLUMNS = (
    "task_id",
    "name",
    "parent_task_id",
    "outcome",
    "score",
    "complete",
    "start_ns",
    "wall_ns",
    *(f"timeline_ns.{part}" for part in TIMELINE),
    "calls",
    "attempts",
    "retries.transport",
    "retries.call",
    "retries.tool",
    "errors.call",
    "errors.tool",
    *(f"tokens.{name}" for name in TOKENS),
    "calls_without_usage",
    "cost_usd",
    "cost_complete",
    "tool_cost_usd",
    "unpriced.no_usage",
    "unpriced.unknown_model",
    "unpriced.abandoned_attempts",
    "unpriced.unknown_server_tool",
    "wasted.cost_usd",
    "energy_j.low",
    "energy_j.high",
    "calls_without_energy",
    "first_token_ns.p50",
    "labels",
    "trace_ids",
)
_GROUP_COLUMNS = (
    "key",
    "tasks",
    "outcomes.success",
    "outcomes.failure",
    "outcomes.unknown",
    *(f"wall_ns.{figure}" for figure in ("mean", "p50", "p95", "p99", "n")),
    *(f"cost_usd.{figure}" for figure in ("mean", "p50", "p95", "p99", "n")),
    "cost_per_success_usd.low",
    "cost_per_success_usd.high",
    "cost_complete",
    "total_cost_usd",
    "wasted_usd",
    *(f"timeline_ns.{part}" for part in TIMELINE),
    "calls",
    "attempts",
    "transport_retries",
    "errors.call",
    "errors.tool",
    *(f"tokens.{name}" for name in TOKENS),
    "energy_j.low",
    "energy_j.high",
    "energy_per_success_j.low",
    "energy_per_success_j.high",
    "calls_without_energy",
)


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Rows without profiles, groups over all selected tasks, and where the next page begins."""
    shown, following = _page(store, selection)
    groups, left_out = _groups(store, selection)
    whole = {
        "schema": SCHEMA,
        "selection": selection.to_dict(),
        "tasks": [row(summary) for summary in shown],
        "groups": groups,
        "groups_left_out": left_out,
        "next": following,
    }
    found: dict[str, Any] = with_plain_amounts(msgspec.to_builtins(whole, builtin_types=(Decimal,)))
    return found


def _groups(store: Store, selection: Selection) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The groups that cost most, and what is in the others; None: there are none."""
    most = selection.groups or GROUPS
    found = store.groups(selection.tops, selection.group_by, most=most + 1)
    if len(found) <= most:
        return found, None
    shown = dearest(found, most)
    kept = set(map(id, shown))
    (first,) = [group for group in found if id(group) not in kept]
    # Asked for after the others: tasks may have come or gone meanwhile.
    every = next(iter(store.groups(selection.tops)), None)
    if every is None:
        return shown, None
    cost_usd = None
    if first["total_cost_usd"] is not None and every["total_cost_usd"] is not None:
        with localcontext(EXACT):
            cost_usd = every["total_cost_usd"] - sum(group["total_cost_usd"] for group in shown)
    tasks = every["tasks"] - sum(group["tasks"] for group in shown)
    return shown, {"tasks": tasks, "total_cost_usd": cost_usd, "hint": _HINT}


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """Those of groups if groups were asked for, else those of tasks."""
    return _GROUP_COLUMNS if "group_by" in document["selection"] else _TASK_COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a group if groups were asked for, else one a task."""
    shown = document["groups" if "group_by" in document["selection"] else "tasks"]
    return [flat_row(each, columns(document)) for each in shown]


def _page(store: Store, selection: Selection) -> tuple[list[TaskSummary], str | None]:
    """The tasks after the cursor, at most `limit`, and the cursor of what follows them."""
    after = None if selection.after is None else cursor_place(selection.after)
    if selection.limit is None:
        return store.tasks(selection.tops, after=after), None
    found = store.tasks(selection.tops, after=after, limit=selection.limit + 1)
    shown = found[: selection.limit]
    return shown, f"{shown[-1].start_ns}:{shown[-1].task_id}" if len(shown) < len(found) else None


def cursor_place(cursor: str) -> ListPlace:
    """Where a page ended.

    Raises:
        ValueError: the text was not given as `next` by a page before.
    """
    start, colon, task_id = cursor.partition(":")
    start_ns = int(start) if colon else _FARTHEST
    if abs(start_ns) >= _FARTHEST:
        raise ValueError("expected the value of next of the page before")
    return ListPlace(start_ns, task_id)
