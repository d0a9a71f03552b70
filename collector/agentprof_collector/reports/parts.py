"""Where time, tokens and money went, by step, agent, tool or model, in one task or over many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from agentprof.money import EXACT, with_plain_amounts
from agentprof.summary import TOKENS, NodeRow, TaskSummary
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, selected
from agentprof_collector.stores import Store

_SUMMARIES_AT_ONCE = 5_000
_COLUMNS = (
    "name",
    "tasks",
    "runs",
    "errors",
    "path_ns",
    "self_path_ns",
    "busy_ns",
    "inferred_ns",
    "calls",
    *(f"tokens.{name}" for name in TOKENS),
    "cost_usd",
    "cost_complete",
)


class PartRow(msgspec.Struct, kw_only=True):
    """All rows of the profiles with one kind and one name, with everything below them."""

    name: str
    tasks: int = 0
    """In how many tasks it occurs."""
    runs: int = 0
    errors: int = 0
    path_ns: int = 0
    """Time on the timeline, with what is below."""
    self_path_ns: int = 0
    """Time on the timeline of its own."""
    busy_ns: int = 0
    """Plain sum with what is below, also where something else ran at the same time."""
    inferred_ns: int = 0
    """Of `self_path_ns` what is a tool's that no span tells of; it is no run."""
    calls: int = 0
    tokens: dict[str, int | None] = msgspec.field(default_factory=lambda: dict.fromkeys(TOKENS))
    cost_usd: Decimal | None = None
    """The known part; None if nothing is known."""
    cost_complete: bool = True
    """Nothing is missing from the cost, as far as the profiles say."""


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Rows by the most time on the timeline first, then by name."""
    found: dict[str, PartRow] = {}
    for summaries in selected(store, selection, _SUMMARIES_AT_ONCE):
        for summary in summaries:
            _add_summary(found, summary, str(selection.by))
    ordered = sorted(found.values(), key=lambda row: (-row.path_ns, row.name))
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "by": selection.by,
        "count": len(ordered),
        "rows": with_plain_amounts(msgspec.to_builtins(ordered[: selection.limit], builtin_types=(Decimal,))),
    }


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a name."""
    return [flat_row(row, _COLUMNS) for row in document["rows"]]


def _add_summary(found: dict[str, PartRow], summary: TaskSummary, kind: str) -> None:
    nodes = {tuple(node.path): node for node in summary.nodes if node.kind == kind}
    for name in {path[-1] for path in nodes}:
        found.setdefault(name, PartRow(name=name)).tasks += 1
    for path, node in nodes.items():
        # A row above of the same kind and name has this one in its totals already.
        counted = any(path[at] == path[-1] and path[: at + 1] in nodes for at in range(len(path) - 1))
        row = found[path[-1]]
        row.cost_complete &= node.total.cost_complete
        _add(row, node, counted_above=counted)


def _add(row: PartRow, node: NodeRow, *, counted_above: bool) -> None:
    row.runs += node.runs
    row.errors += node.errors
    row.self_path_ns += node.self.path_ns
    row.inferred_ns += node.inferred_ns
    if counted_above:
        return
    row.path_ns += node.total.path_ns
    row.busy_ns += node.total.busy_ns
    row.calls += node.total.calls
    for name, count in node.total.tokens.items():
        if count is not None:
            row.tokens[name] = (row.tokens[name] or 0) + count
    if node.total.cost_usd is not None:
        row.cost_usd = EXACT.add(row.cost_usd or Decimal(0), node.total.cost_usd)
