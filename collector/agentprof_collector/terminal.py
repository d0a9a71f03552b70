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
from agentprof._render import COLOURS, node_cost, sum_tokens, total_costs
from agentprof_collector.reports import Document, ReportName

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
    _DRAWINGS[name](console or Console(highlight=False), document)


def draw_task(console: Console, document: Mapping[str, Any]) -> None:
    """One task: header, timeline, facts, profile, doubts."""
    head = Text.assemble(
        (document["name"], "bold"),
        "  ",
        _outcome(document),
        f"  {fmt.duration(document['wall_ns'])}  ",
        (f"task {document['task_id']}", "dim"),
    )
    console.print(head, overflow="ellipsis", no_wrap=True)
    _bar(console, document)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, text in _lines.facts(document):
        facts.add_row(label, Text(text))
    console.print(facts)
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
    table = _table("")
    for head in ("runs", "total", "self", "calls", "tokens", "cost"):
        _number(table, head)
    if wide:
        for head in ("errors", "busy", "self tokens", "self cost"):
            _number(table, head)
    for node, cost in zip(document["nodes"], total_costs(document["nodes"]), strict=True):
        total, own = node["total"], node["self"]
        style = "bold" if node["kind"] == "task" else ""
        name = Text("  " * (len(node["path"]) - 1) + node["path"][-1], style=style)
        if node["errors"] and not wide:
            name.append(f" ({fmt.plural(node['errors'], 'error')})", style="red")
        cells = [
            f"{node['runs']:,}",
            fmt.duration(total["path_ns"]),
            fmt.duration(own["path_ns"]),
            f"{total['calls']:,}" if total["calls"] else "",
            _tokens(total),
            cost,
        ]
        if wide:
            errors = f"{node['errors']:,}" if node["errors"] else ""
            cells += [errors, fmt.duration(total["busy_ns"]), _tokens(own), node_cost(own)]
        table.add_row(name, *cells)
    console.print(table)


def _tokens(figures: Mapping[str, Any]) -> str:
    return fmt.short_count(sum_tokens(figures["tokens"])) if figures["calls"] else ""


def draw_tasks(console: Console, document: Mapping[str, Any]) -> None:
    """A row a task and a line of totals, or a row a group."""
    if not document["groups"]:
        console.print("No task is stored that fits.")
    elif "group_by" in document["selection"]:
        _groups(console, document)
    else:
        _tasks(console, document)


def _tasks(console: Console, document: Mapping[str, Any]) -> None:
    wide = console.width >= _WIDE
    table = _table("task")
    table.add_column("id", no_wrap=True, style="dim")
    if wide:
        table.add_column("started", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for head in ("wall", "calls", "tokens", "cost"):
        _number(table, head)
    table.add_column("waited most for", no_wrap=True)
    if wide:
        _number(table, "retries")
        table.add_column("labels", overflow="ellipsis", no_wrap=True, max_width=30)
    ids = fmt.short_ids([task["task_id"] for task in document["tasks"]])
    for task, short_id in zip(document["tasks"], ids, strict=True):
        cells: list[str | Text] = [Text(task["name"]), Text(short_id)]
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
        table.add_row(*cells)
    console.print(table)
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
    wall = group["wall_ns"]
    texts.append(f"wall p50 {fmt.duration(wall['p50'])}, p95 {fmt.duration(wall['p95'])} (n={wall['n']:,})")
    return "; ".join(texts)


def _groups(console: Console, document: Mapping[str, Any]) -> None:
    key = document["selection"]["group_by"]
    wide = console.width >= _WIDE
    table = _table(key.removeprefix("label."))
    heads = ["tasks", "ok/fail/?", "wall p50", "p95", "p99", "cost", "per success"]
    for head in [*heads, "cost p50", "cost p95", "calls", "tokens"] if wide else heads:
        _number(table, head)
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
        table.add_row(Text("unknown" if value is None else value), *cells)
    console.print(table)
    console.print(Text("p99 needs 100 tasks; ≥: something is missing from the cost", style="dim"))


def _group_cost(group: Mapping[str, Any]) -> str:
    amount = group["total_cost_usd"]
    if amount is None:
        return "unknown"
    return fmt.money(amount) if group["cost_complete"] else f"≥ {fmt.money(amount)}"


def _quantile(amount: str | None) -> str:
    return fmt.UNKNOWN if amount is None else fmt.money(amount)


def _interval(group: Mapping[str, Any]) -> str:
    bounds = group["cost_per_success_usd"]
    if bounds is None:
        return fmt.UNKNOWN
    mark = "" if group["cost_complete"] else "≥ "
    low, high = fmt.money(bounds["low"]), fmt.money(bounds["high"])
    return mark + (low if low == high else f"{low} to {high}")


def draw_parts(console: Console, document: Mapping[str, Any]) -> None:
    """A row a step, agent, tool or model."""
    table = _table(document["by"])
    for head in ("tasks", "runs", "errors", "total", "self", "busy", "calls", "tokens", "cost"):
        _number(table, head)
    for row in document["rows"]:
        table.add_row(
            Text(row["name"]),
            f"{row['tasks']:,}",
            f"{row['runs']:,}",
            f"{row['errors']:,}" if row["errors"] else "",
            fmt.duration(row["path_ns"]),
            fmt.duration(row["self_path_ns"]),
            fmt.duration(row["busy_ns"]),
            f"{row['calls']:,}" if row["calls"] else "",
            _tokens(row),
            node_cost(row),
        )
    console.print(table)
    _say_hidden(console, document["count"] - len(document["rows"]))


def draw_calls(console: Console, document: Mapping[str, Any]) -> None:
    """A row a model call."""
    wide = console.width >= _WIDE
    table = _table("call")
    heads = ["time", "first token", "attempts", "in", "out", "cost"]
    for head in [*heads, "of which"] if wide else heads:
        _number(table, head)
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
            phases = sorted(call["phases_ns"].items(), key=lambda phase: -phase[1])
            cells.append(", ".join(f"{name} {fmt.duration(ns)}" for name, ns in phases[:3] if ns))
        table.add_row(name, *cells)
    console.print(table)
    _say_hidden(console, document["count"] - len(document["calls"]))


def _say_hidden(console: Console, rows: int) -> None:
    if rows > 0:
        console.print(Text(f"{rows:,} more not shown: --limit", style="dim"))


def _table(first: str) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)
    return table


def _number(table: Table, head: str) -> None:
    table.add_column(head, justify="right", no_wrap=True)


def _started(start_ns: int) -> str:
    return datetime.fromtimestamp(start_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _labels(task: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in task["labels"].items())


_DRAWINGS: dict[ReportName, Callable[[Console, Mapping[str, Any]], None]] = {
    "task": draw_task,
    "tasks": draw_tasks,
    "parts": draw_parts,
    "calls": draw_calls,
}
