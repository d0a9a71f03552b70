"""The page of many tasks: a filter, what all of them add up to, and a row each, or a row a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from agentprof import _format as fmt
from agentprof import _lines
from agentprof._render import sum_tokens
from agentprof_collector.page import bars, links
from agentprof_collector.page.times import moment

Given = Sequence[tuple[str, str]]

MOMENTS = (
    ("", "any time"),
    ("15m", "last 15 minutes"),
    ("1h", "last hour"),
    ("24h", "last 24 hours"),
    ("7d", "last 7 days"),
    ("30d", "last 30 days"),
)
GROUPS = 500
"""Groups that are shown."""
_LABELS: Final = 8
"""Labels that are shown of a task in the list."""
OUTCOMES = ("success", "failure", "unknown")


def tasks_view(document: Mapping[str, Any], given: Given, now_ns: int) -> dict[str, Any]:
    """What the template of many tasks shows.

    Args:
        document: of the report of many tasks.
        given: the parameters of the page.
        now_ns: of the reader.
    """
    group_by = document["selection"].get("group_by")
    groups = [] if group_by is None else [_group(group, given) for group in document["groups"]]
    tasks = [] if group_by is not None else _tasks(document["tasks"], given, now_ns)
    totals = _totals(document["groups"][0]) if group_by is None and document["groups"] else None
    return {
        "filter": filter_view(given),
        "filtered": bool({name for name, _ in given} - {"limit", "live", "group_by", "after"}),
        "group_by": None if group_by is None else fmt.printable(group_by),
        "groups": groups,
        "left_out": _left_out(document["groups_left_out"]),
        "tasks": tasks,
        "totals": totals,
        "next": None if document["next"] is None else links.tasks(given, after=document["next"]),
        "first": links.tasks(given, without=["after"]) if dict(given).get("after") else None,
        "json": links.tasks_json(given),
        "legend": _legend(document["groups"]),
    }


def _left_out(found: Mapping[str, Any] | None) -> str | None:
    """What is in the groups that are not shown."""
    if found is None:
        return None
    cost = "unknown" if found["total_cost_usd"] is None else fmt.money(found["total_cost_usd"])
    return f"{fmt.plural(found['tasks'], 'task')}, cost {cost}"


def filter_view(given: Given) -> dict[str, Any]:
    """The form as it was filled in."""
    values = dict(given)
    return {
        "values": {
            name: fmt.printable(values.get(name, ""))
            for name in ("q", "name", "service", "outcome", "since", "until", "group_by")
        },
        "labels": [fmt.printable(value) for name, value in given if name == "label"] + [""],
        "moments": MOMENTS,
        "outcomes": OUTCOMES,
        "more": bool({"name", "service", "label", "until"} & values.keys()),
        "live": values.get("live") != "0",
        "pause": links.tasks(given, live="0"),
        "resume": links.tasks(given, without=["live"]),
    }


def _tasks(rows: Sequence[Mapping[str, Any]], given: Given, now_ns: int) -> list[dict[str, Any]]:
    shorts = fmt.short_ids([row["task_id"] for row in rows])
    return [_task(row, short, given, now_ns) for row, short in zip(rows, shorts, strict=True)]


def _task(raw: Mapping[str, Any], short_id: str, given: Given, now_ns: int) -> dict[str, Any]:
    row = fmt.printable_document(raw)
    used = sum_tokens(row["tokens"])
    retries = sum(number or 0 for number in row["retries"].values())
    return {
        "href": links.task(raw["task_id"]),
        "name": row["name"] or "(no name)",
        "id": fmt.printable(short_id),
        "whole_id": row["task_id"],
        "outcome": row["outcome"] or "unknown",
        "outcome_text": _lines.outcome(row),
        "complete": row["complete"],
        "started": moment(row["start_ns"], now_ns),
        "wall": fmt.duration(row["wall_ns"]),
        "bar": bars.stacked(row),
        "bar_text": _lines.waited_for(row),
        "cost": _lines.short_cost(row),
        "missing": _lines.missing_from_cost(row),
        "retries": fmt.count(retries) if retries else "",
        "retries_text": _lines.retries(row),
        "calls": fmt.count(row["calls"]),
        "errors": _errors(row["errors"]),
        "tokens": fmt.short_count(used) if row["calls"] else "",
        "labels": [
            {"text": fmt.printable(f"{key}={value}"), "href": _with_label(given, key, value)}
            for key, value in islice(raw["labels"].items(), _LABELS)
        ],
        "labels_hidden": max(0, len(raw["labels"]) - _LABELS),
        "warnings": len(row["warnings"]),
    }


def _with_label(given: Given, key: str, value: str) -> str:
    """The tasks shown that also have the label."""
    pair = ("label", f"{key}={value}")
    return links.tasks([*(item for item in given if item != pair), pair], without=["after"])


def _errors(errors: Mapping[str, int]) -> str:
    return ", ".join(fmt.plural(errors[kind], f"{kind} error") for kind in ("call", "tool") if errors[kind])


def _totals(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_figures(group),
        "bar": bars.stacked(bars.of_groups(group)),
        "bar_text": _lines.waited_for(bars.of_groups(group)),
    }


def _group(group: Mapping[str, Any], given: Given) -> dict[str, Any]:
    ((key, value),) = group["key"].items()
    shown = "unknown" if value is None else fmt.printable(value)
    return {
        **_figures(group),
        "value": shown or "(empty)",
        "href": _members(given, key, value),
        "bar": bars.stacked(bars.of_groups(group)),
        "bar_text": _lines.waited_for(bars.of_groups(group)),
    }


def _members(given: Given, key: str, value: str | None) -> str | None:
    """The tasks of a group; None where no filter says so."""
    rest = ["group_by", "after"]
    if key == "outcome":
        return links.tasks(given, without=rest, outcome=value or "unknown")
    if value is None:
        return None
    if key == "name":
        return links.tasks(given, without=rest, name=value)
    pair = ("label", f"{key.removeprefix('label.')}={value}")
    return links.tasks([*(item for item in given if item != pair), pair], without=rest)


def _figures(group: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a group as texts."""
    wall, cost, outcomes = group["wall_ns"], group["cost_usd"], group["outcomes"]
    known = outcomes["success"] + outcomes["failure"]
    return {
        "tasks": fmt.count(group["tasks"]),
        "outcomes": {name: fmt.count(number) for name, number in outcomes.items() if number},
        "success_rate": fmt.share(outcomes["success"], known) if known else fmt.UNKNOWN,
        "wall_p50": fmt.duration(wall["p50"]),
        "wall_p95": fmt.duration(wall["p95"]),
        "wall_p99": fmt.duration(wall["p99"]),
        "n": fmt.count(wall["n"]),
        "cost": _cost(group["total_cost_usd"], group),
        "cost_p50": fmt.UNKNOWN if cost["p50"] is None else fmt.money(cost["p50"]),
        "cost_p95": fmt.UNKNOWN if cost["p95"] is None else fmt.money(cost["p95"]),
        "missing": _lines.missing_from_cost(group),
        "per_success": _interval(group),
        "energy": _energy(group, "energy_j"),
        "energy_per_success": _energy(group, "energy_per_success_j"),
        "without_energy": fmt.plural(group["calls_without_energy"] or 0, "call"),
        "wasted": fmt.money(group["wasted_usd"]) if group["wasted_usd"] is not None else "",
        "retries": _transport_retries(group["transport_retries"]),
        "calls": fmt.count(group["calls"]),
        "errors": _errors(group["errors"]),
        "tokens": fmt.short_count(sum_tokens(group["tokens"])),
    }


def _transport_retries(number: int | None) -> str:
    return fmt.plural(number, "transport retry", "transport retries") if number else ""


def _cost(amount: str | None, group: Mapping[str, Any]) -> str:
    if amount is None:
        return "unknown" if group["calls"] else fmt.UNKNOWN
    return fmt.money(amount) if group["cost_complete"] else fmt.at_least(amount)


def _energy(group: Mapping[str, Any], which: str) -> str:
    """Empty where nobody knows any."""
    return (
        "" if group[which] is None else fmt.energy(group[which], partial=bool(group["calls_without_energy"]))
    )


def _interval(group: Mapping[str, Any]) -> str:
    bounds = group["cost_per_success_usd"]
    if bounds is None:
        return fmt.UNKNOWN
    low, high = _cost(bounds["low"], group), _cost(bounds["high"], group)
    return low if low == high else f"{low} to {high}"


def _legend(groups: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The parts of the timelines that are shown, with what they mean."""
    return [
        (name, meaning)
        for name, (_, meaning) in _lines.PHASES.items()
        if any(group["timeline_ns"].get(name) for group in groups)
    ]
