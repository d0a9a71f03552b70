"""Draws the summary of one task as plain text and as a small piece of HTML; needs nothing but the library."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentprof import _format as fmt
from agentprof import _lines

if TYPE_CHECKING:
    from agentprof.summary import TaskSummary

_ROWS = 100
"""Rows of a profile that a person looks through; all of them are in the JSON."""
_DEPTH = 12
"""Levels that are indented."""

# Each stands out from white and from black, and from every other.
COLOURS = {
    "queue": "#b08a00",
    "prefill": "#2a9db0",
    "wait": "#3d5fc4",
    "generation": "#35a352",
    "model": "#5f9cf0",
    "backoff": "#e0607a",
    "failed_attempt": "#b3243c",
    "network": "#a39a7a",
    "tool": "#d080c8",
    "human": "#ee8434",
    "step": "#8a5fd0",
    "other": "#6b7078",
}


def as_text(summary: TaskSummary, width: int = 80) -> str:
    """The summary as plain text.

    Args:
        width: columns; lines are cut to it where they must be.
    """
    document = fmt.printable_document(summary.to_dict())
    lines = [
        _lines.HEAD_GAP.join(filter(None, _lines.head(document, width))),
        _letter_bar(document, width),
        *_legend(document, width),
        "",
        *(f"{label:<12} {text}" for label, text in _lines.facts(document)),
        "",
        *_node_table(document, width),
    ]
    doubts = _lines.warnings(document)
    if doubts:
        # What to do stands at their ends, a switch as it is typed.
        lines.append("")
        for doubt in doubts:
            lines += textwrap.wrap(f"! {doubt}", width, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(fmt.cut(line, width) for line in lines)


def _letter_bar(document: dict[str, Any], width: int) -> str:
    cells = _lines.bar(document, width - 2)
    return "[" + "".join(_lines.PHASES[name][0] * size for name, size in cells) + "]"


def _legend(document: dict[str, Any], width: int) -> list[str]:
    lines = _lines.key(document, width)
    return [
        _lines.KEY_GAP.join(f"{_lines.PHASES[part.name][0]} {text}" for part, text in line) for line in lines
    ]


def _node_table(document: dict[str, Any], width: int) -> list[str]:
    shown = profile(document)
    room_for_cost = max(11, *(len(cost) for _, cost in shown))
    columns = f"{'runs':>5} {'total':>9} {'self':>9} {'calls':>5} {'tokens':>7} {'cost':>{room_for_cost}}"
    room = max(12, width - len(columns) - 1)
    lines = [f"{'':<{room}} {columns}"]
    for node, cost in shown:
        total, own = node["total"], node["self"]
        figures = (
            f"{known_runs(node):>5} {fmt.duration(total['path_ns']):>9} {fmt.duration(own['path_ns']):>9} "
            f"{total['calls'] or '':>5} {_tokens(total):>7} {cost:>{room_for_cost}}"
        )
        lines.append(f"{fmt.padded(fmt.cut(indented(node), room), room)} {figures}")
    hidden = len(document["nodes"]) - len(shown)
    return [*lines, f"{hidden:,} rows with less time not shown"] if hidden else lines


def profile(document: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """The rows of a profile with their total costs: of very many those with the most time, in their order."""
    nodes = document["nodes"]
    rows = [(node, node_cost(node["total"])) for node in nodes]
    if len(rows) <= _ROWS:
        return rows
    # A row has no more time than the one above it, which comes first: none is shown without those above.
    longest = sorted(range(len(rows)), key=lambda at: -nodes[at]["total"]["path_ns"])
    return [rows[at] for at in sorted(longest[:_ROWS])]


def indented(node: Mapping[str, Any]) -> str:
    """The name of a row under those above it."""
    return "  " * min(len(node["path"]) - 1, _DEPTH) + shown_name(node)


def shown_name(node: Mapping[str, Any]) -> str:
    """The name of a row, and whether some of its time is inferred."""
    return marked_name(str(node["path"][-1]), node)


def marked_name(name: str, row: Mapping[str, Any]) -> str:
    """The name of a row of a report, and whether its time, or some of it, is inferred."""
    if not row.get("inferred_ns"):
        return name
    return f"{name} (partly inferred)" if row["runs"] else f"{name} (inferred)"


def known_runs(row: Mapping[str, Any]) -> str:
    """How many runs spans tell of; empty where none does, though there was time of some."""
    return "" if row.get("inferred_ns") and not row["runs"] else f"{row['runs']:,}"


def _tokens(figures: dict[str, Any]) -> str:
    if not figures["calls"]:
        return ""
    return fmt.short_count(sum_tokens(figures["tokens"]))


def sum_tokens(tokens: dict[str, int | None]) -> int | None:
    """Input and output together; None if neither is known."""
    known = [count for count in (tokens["input"], tokens["output"]) if count is not None]
    return sum(known) if known else None


def node_cost(figures: Mapping[str, Any]) -> str:
    """The known cost of a row, as a bound where something is missing from it; empty where nothing can cost."""
    complete = figures["cost_complete"]
    if figures["cost_usd"] is None:
        return "unknown" if figures["calls"] or not complete else ""
    return fmt.money(figures["cost_usd"]) if complete else fmt.at_least(figures["cost_usd"])


def as_html(summary: TaskSummary) -> str:
    """The summary as HTML without scripts or outside resources; every text of the task is escaped."""
    document = fmt.printable_document(summary.to_dict())
    parts = _lines.parts(document)
    facts = "".join(_html_row((label, text)) for label, text in _lines.facts(document))
    doubts = "".join(f"<li>{html.escape(doubt)}</li>" for doubt in _lines.warnings(document))
    return (
        f"<div><p><b>{html.escape(document['name'])}</b> {html.escape(_lines.outcome(document))}, "
        f"{fmt.duration(document['wall_ns'])} <code>{html.escape(document['task_id'])}</code></p>"
        f'<div style="display:flex;width:100%">{"".join(_html_piece(part) for part in parts)}</div>'
        f"<p>{' '.join(_html_key(part) for part in parts)}</p>"
        f"<table>{facts}</table>{_html_nodes(document)}{f'<ul>{doubts}</ul>' if doubts else ''}</div>"
    )


def _html_piece(part: _lines.Part) -> str:
    style = f"flex:{part.ns} 0 0;background:{COLOURS[part.name]};height:1em"
    return f'<div style="{style}" title="{part.name}: {_lines.PHASES[part.name][1]}"></div>'


def _html_key(part: _lines.Part) -> str:
    square = f'<span style="color:{COLOURS[part.name]}">■</span>'
    return (
        f'<span style="white-space:nowrap">{square} {part.name} {fmt.duration(part.ns)} {part.share}</span>'
    )


def _html_row(cells: Sequence[str], tag: str = "td", indent: int = 0) -> str:
    left = f"text-align:left;padding-left:{indent}em"
    first = f'<{tag} style="{left}">{html.escape(cells[0])}</{tag}>'
    return f"<tr>{first}{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells[1:])}</tr>"


def _html_nodes(document: dict[str, Any]) -> str:
    rows = _html_row(("", "runs", "total", "self", "calls", "tokens", "cost"), "th")
    for node, cost in profile(document):
        total, own = node["total"], node["self"]
        cells = (
            shown_name(node),
            known_runs(node),
            fmt.duration(total["path_ns"]),
            fmt.duration(own["path_ns"]),
            f"{total['calls']:,}" if total["calls"] else "",
            _tokens(total),
            cost,
        )
        rows += _html_row(cells, indent=min(len(node["path"]) - 1, _DEPTH))
    return f"<table>{rows}</table>"
