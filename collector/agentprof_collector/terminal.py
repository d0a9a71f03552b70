"""Draws the documents of reports in a terminal, wide or narrow, with colours or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentprof import _format as fmt
from agentprof import _lines
from agentprof._render import COLOURS, indented, known_runs, marked_name, node_cost, profile, sum_tokens
from agentprof_collector.reports import Document, ReportName
from agentprof_collector.tables import Column, FittedTable
from agentprof_collector.terminal_endpoints import draw_estimated, draw_estimates, draw_rates
from agentprof_collector.terminal_gpu_hours import draw_gpu_hours

DEFAULT_ROWS = 30
"""Rows of a table in a terminal where no limit is given."""

_WIDE = 110
_OUTCOME_STYLES = {"success": "green", "failure": "bold red"}
_CELLS_MIN, _CELLS_MAX = 20, 120


def draw(name: ReportName, document: Document, console: Console | None = None) -> None:
    """Print a report's document.

    Args:
        console: where to; default stdout, 80 columns where it is no terminal.
    """
    _DRAWINGS[name](console or Console(highlight=False), fmt.printable_document(document))


def _draw_task(console: Console, document: Mapping[str, Any]) -> None:
    """One task: header, timeline, facts, profile, doubts."""
    head = _lines.head(document, console.width)
    gap = _lines.HEAD_GAP
    line = Text.assemble((head.name, "bold"), gap, _outcome(document), gap, head.wall)
    if head.task_id:
        line.append(gap + head.task_id)
    console.print(line, overflow="ellipsis", no_wrap=True)
    _bar(console, document)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, text in _lines.facts(document):
        facts.add_row(label, Text(text))
    console.print(facts)
    if "estimated" in document:
        draw_estimated(console, document)
    console.print()
    _profile(console, document)
    for doubt in _lines.warnings(document):
        console.print(Text.assemble(("! ", "bold"), doubt))


def _outcome(document: Mapping[str, Any]) -> Text:
    return Text(_lines.outcome(document), style=_OUTCOME_STYLES.get(document["outcome"] or "", ""))


def _bar(console: Console, document: Mapping[str, Any]) -> None:
    """Blocks in colours with their key, or letters where there is no colour."""
    coloured = console.color_system is not None and not console.no_color
    width = max(_CELLS_MIN, min(console.width, _CELLS_MAX))
    bar = Text()
    for name, cells in _lines.bar(document, width):
        if coloured:
            bar.append("█" * cells, style=COLOURS[name])
        else:
            bar.append(_lines.PHASES[name][0] * cells)
    console.print(bar, no_wrap=True, overflow="crop")
    for line in _lines.key(document, console.width):
        key = Text()
        for part, text in line:
            sign = ("■", COLOURS[part.name]) if coloured else _lines.PHASES[part.name][0]
            key.append_text(Text.assemble(_lines.KEY_GAP if key else "", sign, f" {text}"))
        console.print(key)
    console.print()


def _profile(console: Console, document: Mapping[str, Any]) -> None:
    wide = console.width >= _WIDE
    columns = [
        Column("runs", 4),
        Column("total"),
        Column("self", 2),
        Column("calls", 5),
        Column("tokens", 3),
        Column("cost"),
    ]
    extra = [
        Column("errors", 9, extra=True),
        Column("busy", 8, extra=True),
        Column("self tokens", 7, extra=True),
        Column("self cost", 6, extra=True),
    ]
    table = FittedTable("", *columns, *(extra if wide else ()))
    shown = profile(document)
    for node, cost in shown:
        total, own = node["total"], node["self"]
        name = Text(indented(node), style="bold" if node["kind"] == "task" else "")
        if node["errors"] and not wide:
            name.append(f" ({fmt.plural(node['errors'], 'error')})", style="red")
        cells = [
            known_runs(node),
            fmt.duration(total["path_ns"]),
            fmt.duration(own["path_ns"]),
            f"{total['calls']:,}" if total["calls"] else "",
            _tokens(total),
            cost,
        ]
        if wide:
            errors = f"{node['errors']:,}" if node["errors"] else ""
            cells += [errors, fmt.duration(total["busy_ns"]), _tokens(own), node_cost(own)]
        table.add(name, *cells)
    table.print(console)
    if len(shown) < len(document["nodes"]):
        hidden = f"{len(document['nodes']) - len(shown):,} rows with less time not shown: --json, or --csv"
        console.print(Text(hidden, style="dim"))


def _tokens(figures: Mapping[str, Any]) -> str:
    return fmt.short_count(sum_tokens(figures["tokens"])) if figures["calls"] else ""


def _draw_tasks(console: Console, document: Mapping[str, Any]) -> None:
    """A row a task and a line of totals, or a row a group."""
    if not document["groups"]:
        console.print("No task is stored that fits.")
    elif "group_by" in document["selection"]:
        _groups(console, document)
    else:
        _tasks(console, document)
    for line in _lines.advice(document["tasks"]):
        console.print(Text.assemble(("! ", "bold"), line))


def _tasks(console: Console, document: Mapping[str, Any]) -> None:
    wide = console.width >= _WIDE
    columns = [
        Column("id", right=False),
        *([Column("started", 7, right=False, extra=True)] if wide else ()),
        Column("outcome", right=False),
        Column("wall", 1),
        Column("calls", 3),
        Column("tokens", 4),
        Column("cost"),
        Column("waited most for", 2, right=False),
    ]
    if wide:
        columns += [Column("retries", 5, extra=True), Column("labels", 6, right=False, width=30, extra=True)]
    table = FittedTable("task", *columns)
    ids = fmt.short_ids([task["task_id"] for task in document["tasks"]])
    for task, short_id in zip(document["tasks"], ids, strict=True):
        cells: list[str | Text] = [Text(short_id)]
        if wide:
            cells.append(_started(task["start_ns"]))
        used = sum_tokens(task["tokens"])
        cells += [
            _outcome(task | {"score": None}),
            fmt.duration(task["wall_ns"]),
            f"{task['calls']:,}",
            fmt.short_count(used) if task["calls"] else "",
            _lines.short_cost(task),
            _lines.waited_for(task).partition(",")[0],
        ]
        if wide:
            retries = sum(number or 0 for number in task["retries"].values())
            cells += [str(retries or ""), Text(_labels(task))]
        table.add(Text(task["name"]), *cells)
    table.print(console)
    (group,) = document["groups"]
    hidden = group["tasks"] - len(document["tasks"])
    console.print()
    console.print(Text(_totals(group)))
    if hidden > 0:
        console.print(Text(f"{hidden:,} more not shown: --limit, or --after {document['next']}", style="dim"))


def _totals(group: Mapping[str, Any]) -> str:
    outcomes = group["outcomes"]
    ended = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items() if number)
    texts = [f"{fmt.plural(group['tasks'], 'task')}: {ended}", f"cost {_group_cost(group)}"]
    if group["cost_per_success_usd"]:
        texts.append(f"{_interval(group)} per success")
    if group["energy_j"]:
        texts.append(f"energy {_energy(group, 'energy_j')}")
    if group["energy_per_success_j"]:
        texts.append(f"{_energy(group, 'energy_per_success_j')} per success")
    wall = group["wall_ns"]
    texts.append(f"wall p50 {fmt.duration(wall['p50'])}, p95 {fmt.duration(wall['p95'])} (n={wall['n']:,})")
    return "; ".join(texts)


def _groups(console: Console, document: Mapping[str, Any]) -> None:
    key = document["selection"]["group_by"]
    wide = console.width >= _WIDE
    columns = [
        Column("tasks"),
        Column("ok/fail/?", 3),
        Column("wall p50", 1),
        Column("p95", 4),
        Column("p99", 6),
        Column("cost"),
        Column("per success", 2),
    ]
    extra = [
        Column("cost p50", 7, extra=True),
        Column("cost p95", 8, extra=True),
        Column("calls", 9, extra=True),
        Column("tokens", 10, extra=True),
    ]
    has_energy = any(group["energy_j"] for group in document["groups"])
    if has_energy:
        extra.append(Column("energy", 11, extra=True))
    table = FittedTable(key.removeprefix("label."), *columns, *(extra if wide else ()))
    for group in document["groups"]:
        (value,) = group["key"].values()
        outcomes, wall = group["outcomes"], group["wall_ns"]
        cells = [
            f"{group['tasks']:,}",
            f"{outcomes['success']}/{outcomes['failure']}/{outcomes['unknown']}",
            fmt.duration(wall["p50"]),
            fmt.duration(wall["p95"]),
            fmt.duration(wall["p99"]),
            _group_cost(group),
            _interval(group),
        ]
        if wide:
            cost = group["cost_usd"]
            cells += [_quantile(cost["p50"]), _quantile(cost["p95"]), f"{group['calls']:,}"]
            cells.append(fmt.short_count(sum_tokens(group["tokens"])))
            cells += [_energy(group, "energy_j")] if has_energy else []
        table.add(Text("unknown" if value is None else value), *cells)
    table.print(console)
    console.print(Text("p99 needs 100 tasks; ≥: something is missing from the cost", style="dim"))
    left_out = document.get("groups_left_out")
    if left_out is not None:
        console.print(Text(groups_left_out(len(document["groups"]), left_out)))


def groups_left_out(shown: int, left_out: Mapping[str, Any]) -> str:
    """That there are more groups than are shown, what is in them, and how to see it."""
    cost = left_out["total_cost_usd"]
    return (
        f"Shown: the {fmt.plural(shown, 'group')} with the highest cost. In others: "
        f"{fmt.plural(left_out['tasks'], 'task')}, cost {'unknown' if cost is None else fmt.money(cost)}. "
        "More with --groups N; fewer tasks with --since, --until, --name, --outcome, --label or --service."
    )


def _group_cost(group: Mapping[str, Any]) -> str:
    amount = group["total_cost_usd"]
    if amount is None:
        return "unknown"
    return fmt.money(amount) if group["cost_complete"] else fmt.at_least(amount)


def _quantile(amount: str | None) -> str:
    return fmt.UNKNOWN if amount is None else fmt.money(amount)


def _energy(group: Mapping[str, Any], which: str) -> str:
    return fmt.energy(group[which], partial=bool(group["calls_without_energy"]))


def _interval(group: Mapping[str, Any]) -> str:
    bounds = group["cost_per_success_usd"]
    if bounds is None:
        return fmt.UNKNOWN
    shown = fmt.money if group["cost_complete"] else fmt.at_least
    low, high = shown(bounds["low"]), shown(bounds["high"])
    return low if low == high else f"{low} to {high}"


def _draw_parts(console: Console, document: Mapping[str, Any]) -> None:
    """A row a step, agent, tool or model."""
    table = FittedTable(
        document["by"],
        Column("tasks", 7),
        Column("runs", 5),
        Column("errors", 3),
        Column("total"),
        Column("self", 2),
        Column("busy", 8),
        Column("calls", 6),
        Column("tokens", 4),
        Column("cost"),
    )
    for row in document["rows"]:
        table.add(
            Text(marked_name(row["name"], row)),
            f"{row['tasks']:,}",
            known_runs(row),
            f"{row['errors']:,}" if row["errors"] else "",
            fmt.duration(row["path_ns"]),
            fmt.duration(row["self_path_ns"]),
            fmt.duration(row["busy_ns"]),
            f"{row['calls']:,}" if row["calls"] else "",
            _tokens(row),
            node_cost(row),
        )
    table.print(console)
    if not all(row["cost_complete"] for row in document["rows"]):
        console.print(Text("≥: something is missing from the cost", style="dim"))
    _say_hidden(console, document["count"] - len(document["rows"]))


def _draw_calls(console: Console, document: Mapping[str, Any]) -> None:
    """A row a model call."""
    if not document["calls"]:
        console.print("No call is stored that fits.")
        return
    wide = console.width >= _WIDE
    columns = [
        Column("time"),
        Column("first token", 1),
        Column("attempts", 4),
        Column("in", 3),
        Column("out", 2),
        Column("cost"),
    ]
    has_energy = any(call["energy_j"] for call in document["calls"])
    extra = [Column("prefill", 6, extra=True), Column("generation", 7, extra=True)]
    extra += [Column("energy", 8, extra=True)] if has_energy else []
    table = FittedTable("call", *columns, *(extra if wide else ()), Column("phases", 5))
    for call in document["calls"]:
        name = Text(call["model"] or "unknown model")
        if call["error"]:
            name.append(f" {call['error_type'] or 'error'}", style="red")
        cells = [
            fmt.duration(call["duration_ns"]),
            fmt.duration(call["first_token_ns"]),
            fmt.count(call["attempts"]),
            fmt.short_count(call["tokens"]["input"]),
            fmt.short_count(call["tokens"]["output"]),
            fmt.money(call["cost_usd"]),
        ]
        if wide:
            cells += [fmt.rate(call["prefill_tokens_per_s"]), fmt.rate(call["generation_tokens_per_s"])]
            cells += [fmt.energy(call["energy_j"])] if has_energy else []
        phases = sorted(call["phases_ns"].items(), key=lambda phase: -phase[1])
        cells.append(", ".join(f"{name} {fmt.duration(ns)}" for name, ns in phases[:3] if ns))
        table.add(name, *cells)
    table.print(console)
    _say_hidden(console, document["count"] - len(document["calls"]))


def _say_hidden(console: Console, rows: int) -> None:
    if rows > 0:
        console.print(Text(f"{rows:,} more not shown: --limit", style="dim"))


def _started(start_ns: int) -> str:
    return datetime.fromtimestamp(start_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _labels(task: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in task["labels"].items())


_DRAWINGS: dict[ReportName, Callable[[Console, Mapping[str, Any]], None]] = {
    "task": _draw_task,
    "tasks": _draw_tasks,
    "parts": _draw_parts,
    "calls": _draw_calls,
    "rates": draw_rates,
    "estimates": draw_estimates,
    "gpu_hours": draw_gpu_hours,
}
