"""The page of one task: its figures, its waterfall, its profile, and what is doubtful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentprof import _format as fmt
from agentprof import _lines
from agentprof._render import known_runs, node_cost, profile, shown_name, sum_tokens
from agentprof_collector.page import bars, form, links
from agentprof_collector.page.times import moment
from agentprof_collector.page.waterfall import waterfall_view

_DEPTH = 12
"""Levels that are indented."""
_TRACES = 20
"""Traces that are listed; the others are in the JSON."""
_ROWS = 100
"""Rows of a table of models or tools."""


def task_view(
    summary: Mapping[str, Any], waterfall: Mapping[str, Any], jaeger_url: str | None, now_ns: int
) -> dict[str, Any]:
    """What the template of one task shows.

    Args:
        summary: of the report of one task.
        waterfall: of the report of its runs.
        jaeger_url: where its traces are shown too.
        now_ns: of the reader.
    """
    shown = fmt.printable_document(summary)
    task_id, parent = summary["task_id"], summary["parent_task_id"]
    rows = profile(shown)
    return {
        "task": shown,
        "name": shown["name"] or "(no name)",
        "outcome": shown["outcome"] or "unknown",
        "outcome_text": _lines.outcome(shown),
        "started": moment(summary["start_ns"], now_ns),
        "ended": moment(summary["end_ns"], now_ns),
        "tiles": _tiles(shown),
        "bar": bars.stacked(shown),
        "bar_text": _lines.waited_for(shown),
        "legend": bars.legend(shown),
        "overlap": _overlap(shown),
        "warnings": _lines.warnings(shown),
        "waterfall": waterfall_view(fmt.printable_document(waterfall)),
        "nodes": [_node(node, cost, shown["wall_ns"]) for node, cost in rows],
        "nodes_hidden": len(shown["nodes"]) - len(rows),
        "models": _models(shown),
        "tools": _tools(shown),
        "costs": [(name, fmt.money(amount)) for name, amount in shown["cost_by_class_usd"].items()],
        "missing": _lines.missing_from_cost(shown),
        "labels": [
            {"text": fmt.printable(f"{key}={value}"), "href": links.tasks([("label", f"{key}={value}")])}
            for key, value in summary["labels"].items()
        ],
        "run": sorted((shown["run"] or {}).items()),
        "parent": None if parent is None else (links.task(parent), fmt.printable(parent)),
        "same_name": links.tasks([("name", summary["name"])]),
        "traces": [
            (trace_id, links.jaeger(jaeger_url, raw))
            for raw, trace_id in zip(summary["trace_ids"][:_TRACES], shown["trace_ids"], strict=False)
        ],
        "traces_hidden": len(summary["trace_ids"][_TRACES:]),
        "json": links.task_json(task_id),
        "waterfall_json": links.task_json(task_id, "/waterfall"),
        "content_json": links.task_json(task_id, "/content"),
        "record": links.task(task_id, "/outcome"),
        "proof": form.proof(task_id),
        "live": not shown["complete"],
    }


def _tiles(task: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures at the head: label, value, what belongs to it."""
    tokens, retries = task["tokens"], sum(number or 0 for number in task["retries"].values())
    seen = task["first_token_ns"]
    missing = _lines.missing_from_cost(task)
    calls = _lines.calls(task).partition(", ")[2]
    used = fmt.short_count(sum_tokens(tokens)) if task["calls"] else fmt.UNKNOWN
    found = [
        ("wall", fmt.duration(task["wall_ns"]), _lines.waited_for(task).partition(",")[0]),
        ("cost", _lines.short_cost(task), f"without {missing}" if missing else ""),
        ("tokens", used, _lines.tokens(task)),
        ("calls", fmt.count(task["calls"]), calls),
        ("retries", fmt.count(retries), _retries(task)),
    ]
    if seen is not None:
        found.append(("first token", fmt.duration(seen["p50"]), f"{fmt.duration(seen['max'])} at most"))
    if task["energy_j"] is not None:
        partial = bool(task["calls_without_energy"])
        found.append(("energy", fmt.energy(task["energy_j"], partial=partial), _energy_of(task)))
    return found


def _energy_of(task: Mapping[str, Any]) -> str:
    """How the energy is known, and of how many calls it is not."""
    known = [_lines.energy_row(row) for row in task["energy"]]
    missing = task["calls_without_energy"]
    return "; ".join([*known, f"not known of {fmt.plural(missing, 'call')}"] if missing else known)


def _retries(task: Mapping[str, Any]) -> str:
    repeats = sum(number or 0 for number in task["repeats"].values())
    said = [_lines.retries(task), fmt.plural(repeats, "repeat") if repeats else ""]
    return ", ".join(filter(None, said))


def _overlap(task: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    words = {
        "model": "a model call was running",
        "tool": "a tool was running",
        "both": "both at once",
        "neither": "neither",
    }
    overlap, wall = task["overlap_ns"], task["wall_ns"]
    return [(text, fmt.duration(overlap[key]), fmt.share(overlap[key], wall)) for key, text in words.items()]


def _node(node: Mapping[str, Any], cost: str, wall_ns: int) -> dict[str, Any]:
    total, own = node["total"], node["self"]
    scale = bars.Scale(0, wall_ns)
    return {
        "depth": min(len(node["path"]) - 1, _DEPTH),
        "name": shown_name(node) or "(no name)",
        "path": " / ".join(node["path"]),
        "kind": node["kind"],
        "runs": known_runs(node),
        "errors": fmt.count(node["errors"]) if node["errors"] else "",
        "total": fmt.duration(total["path_ns"]),
        "share": fmt.share(total["path_ns"], wall_ns),
        "total_x": scale.x(total["path_ns"]),
        "self": fmt.duration(own["path_ns"]),
        "self_x": scale.x(own["path_ns"]),
        "busy": fmt.duration(total["busy_ns"]),
        "calls": fmt.count(total["calls"]) if total["calls"] else "",
        "tokens": fmt.short_count(sum_tokens(total["tokens"])) if total["calls"] else "",
        "self_tokens": fmt.short_count(sum_tokens(own["tokens"])) if own["calls"] else "",
        "cost": cost,
        "self_cost": node_cost(own),
    }


def _models(task: Mapping[str, Any]) -> dict[str, Any]:
    return _table(
        task["models"],
        lambda row: {
            "provider": row["provider"] or "",
            "calls": fmt.count(row["calls"]),
            "errors": fmt.count(row["errors"]) if row["errors"] else "",
            "attempts": fmt.count(row["attempts"]),
            "input": fmt.short_count(row["tokens"]["input"]),
            "output": fmt.short_count(row["tokens"]["output"]),
            "cost": "unknown" if row["cost_usd"] is None else fmt.money(row["cost_usd"]),
            "first_token": fmt.duration(row["first_token_ns"]["p50"] if row["first_token_ns"] else None),
            "speed": fmt.UNKNOWN
            if row["output_tokens_per_s"] is None
            else f"{row['output_tokens_per_s']:,.0f}/s",
        },
    )


def _tools(task: Mapping[str, Any]) -> dict[str, Any]:
    return _table(
        task["tools"],
        lambda row: {
            "runs": known_runs(row),
            "errors": fmt.count(row["errors"]) if row["errors"] else "",
            "inferred": fmt.duration(row["inferred_ns"]) if row.get("inferred_ns") else "",
            "busy": fmt.duration(row["busy_ns"]),
            "cost": fmt.UNKNOWN if row["cost_usd"] is None else fmt.money(row["cost_usd"]),
        },
    )


def _table(found: Mapping[str, Mapping[str, Any]], cells: Any) -> dict[str, Any]:
    """Rows by name, as many as a person looks through."""
    rows: Sequence[tuple[str, Mapping[str, Any]]] = list(found.items())
    return {
        "rows": [{"name": name or "(no name)", **cells(row)} for name, row in rows[:_ROWS]],
        "hidden": len(rows[_ROWS:]),
    }
