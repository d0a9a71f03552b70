"""Draws the summary of one task as plain text and as a small piece of HTML; needs nothing but the library."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentprof import _format as fmt
from agentprof import _lines

if TYPE_CHECKING:
    from agentprof.summary import TaskSummary

# Of similar lightness, so that they can be told apart on white and on black.
COLOURS = {
    "queue": "#b8860b",
    "prefill": "#3b8ea5",
    "wait": "#4c78c8",
    "generation": "#3a9d5d",
    "model": "#5b8def",
    "backoff": "#d1495b",
    "failed_attempt": "#a63446",
    "network": "#8a8f98",
    "tool": "#c77dba",
    "human": "#e08e45",
    "step": "#7d6cc4",
    "other": "#6b7078",
}


def as_text(summary: TaskSummary, width: int = 80) -> str:
    """The summary as plain text.

    Args:
        width: columns; lines are cut to it where they must be.
    """
    document = summary.to_dict()
    lines = [
        f"{document['name']}   {_lines.outcome(document)}   {fmt.duration(document['wall_ns'])}"
        f"   task {document['task_id']}",
        _letter_bar(document, width),
        *_legend(document, width),
        "",
        *(f"{label:<12} {text}" for label, text in _lines.facts(document)),
        "",
        *_node_table(document, width),
    ]
    doubts = _lines.warnings(document)
    if doubts:
        lines += ["", *(f"! {doubt}" for doubt in doubts)]
    return "\n".join(_cut(line, width) for line in lines)


def _letter_bar(document: dict[str, Any], width: int) -> str:
    cells = _lines.bar(document, width - 2)
    return "[" + "".join(_lines.PHASES[name][0] * size for name, size in cells) + "]"


def _legend(document: dict[str, Any], width: int) -> list[str]:
    lines = _lines.key(document, width)
    return [
        _lines.KEY_GAP.join(f"{_lines.PHASES[part.name][0]} {text}" for part, text in line) for line in lines
    ]


def _node_table(document: dict[str, Any], width: int) -> list[str]:
    columns = f"{'total':>9} {'self':>9} {'runs':>5} {'calls':>5} {'tokens':>7} {'cost':>11}"
    room = max(12, width - len(columns) - 1)
    lines = [f"{'':<{room}} {columns}"]
    for node, cost in zip(document["nodes"], total_costs(document["nodes"]), strict=True):
        name = "  " * (len(node["path"]) - 1) + node["path"][-1]
        total, own = node["total"], node["self"]
        figures = (
            f"{fmt.duration(total['path_ns']):>9} {fmt.duration(own['path_ns']):>9} {node['runs']:>5} "
            f"{total['calls'] or '':>5} {_tokens(total):>7} {cost:>11}"
        )
        lines.append(f"{_cut(name, room):<{room}} {figures}")
    return lines


def _tokens(figures: dict[str, Any]) -> str:
    if not figures["calls"]:
        return ""
    return fmt.short_count(sum_tokens(figures["tokens"]))


def sum_tokens(tokens: dict[str, int | None]) -> int | None:
    """Input and output together; None if neither is known."""
    known = [count for count in (tokens["input"], tokens["output"]) if count is not None]
    return sum(known) if known else None


def node_cost(figures: Mapping[str, Any], *, bound: bool = False) -> str:
    """The known cost of a row; empty where nothing can cost.

    Args:
        bound: something below it has no known cost.
    """
    if figures["cost_usd"] is None:
        return "unknown" if figures["calls"] else ""
    return ("≥ " if bound else "") + fmt.money(figures["cost_usd"])


def total_costs(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The total cost of each row of the profile, as a bound where a row below it is not priced."""
    unpriced = [node["path"] for node in nodes if node["self"]["calls"] and node["self"]["cost_usd"] is None]
    return [
        node_cost(node["total"], bound=any(path[: len(node["path"])] == node["path"] for path in unpriced))
        for node in nodes
    ]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def as_html(summary: TaskSummary) -> str:
    """The summary as HTML without scripts or outside resources; every text of the task is escaped."""
    document = summary.to_dict()
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
    rows = _html_row(("", "total", "self", "runs", "calls", "tokens", "cost"), "th")
    for node, cost in zip(document["nodes"], total_costs(document["nodes"]), strict=True):
        total, own = node["total"], node["self"]
        cells = (
            node["path"][-1],
            fmt.duration(total["path_ns"]),
            fmt.duration(own["path_ns"]),
            f"{node['runs']:,}",
            f"{total['calls']:,}" if total["calls"] else "",
            _tokens(total),
            cost,
        )
        rows += _html_row(cells, indent=len(node["path"]) - 1)
    return f"<table>{rows}</table>"
