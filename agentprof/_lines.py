"""What a person reads of one summary, as short texts and rows; drawing them is for others.

Everything here takes a summary in its JSON form (`TaskSummary.to_dict()`), with its texts made printable
(`_format.printable_document`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from agentprof import _format as fmt

Document = Mapping[str, Any]

PHASES: dict[str, tuple[str, str]] = {
    "queue": ("q", "waiting in the engine's queue"),
    "prefill": ("p", "reading the prompt"),
    "wait": ("w", "before the first token"),
    "generation": ("g", "generating tokens"),
    "model": ("m", "in model calls, undivided"),
    "backoff": ("b", "pausing before a retry"),
    "failed_attempt": ("f", "in attempts that failed"),
    "network": ("n", "on the network"),
    "tool": ("t", "in tools"),
    "human": ("h", "waiting for a person"),
    "step": ("s", "in steps of the program"),
    "other": (".", "in the program itself"),
}
"""Of every part of a timeline, in order: its letter in a bar without colours, and what it means."""

_RETRIES = "retries"
_GROUPS: dict[str, tuple[str, ...]] = {
    "the model": ("queue", "prefill", "wait", "generation", "model"),
    _RETRIES: ("backoff", "failed_attempt"),
    "the network": ("network",),
    "tools": ("tool",),
    "people": ("human",),
    "the program": ("step", "other"),
}

_UNPRICED = {
    "unknown_model": ("call of a model with no known price", "calls of models with no known price"),
    "no_usage": ("call without usage", "calls without usage"),
    "abandoned_attempts": ("abandoned attempt, perhaps billed", "abandoned attempts, perhaps billed"),
    "unknown_server_tool": ("server tool with no known price", "server tools with no known price"),
}


HEAD_GAP = "   "
_NAME = 24
"""Columns of a name that an id does not take."""
_ID = len("task 01234567")
KEY_GAP = "   "
"""Between two parts in the key of a bar."""


class Part(NamedTuple):
    """A part of the timeline."""

    name: str
    ns: int
    share: str


class Head(NamedTuple):
    """What stands above the timeline."""

    name: str
    outcome: str
    wall: str
    task_id: str
    """Empty where there is no room."""


def head(summary: Document, width: int) -> Head:
    """The first line in `width` columns: of name and id as much as fits, outcome and time whole."""
    ended, wall = outcome(summary), fmt.duration(summary["wall_ns"])
    room = width - sum(map(fmt.cells, (ended, wall))) - 2 * len(HEAD_GAP)
    name, task_id = summary["name"], f"task {summary['task_id']}"
    # A name is known without its end; an id is not, and the report of the task is asked for by it.
    beside = room - len(HEAD_GAP) - fmt.cells(task_id)
    if beside < min(fmt.cells(name), _NAME):
        beside = min(fmt.cells(name), _NAME)
        task_id = fmt.cut(task_id, room - len(HEAD_GAP) - beside)
    if fmt.cells(task_id) < _ID:
        return Head(fmt.cut(name, max(room, 1)), ended, wall, "")
    return Head(fmt.cut(name, beside), ended, wall, task_id)


def parts(summary: Document) -> list[Part]:
    """The parts of the timeline that are not empty, in the order of `PHASES`."""
    timeline = summary["timeline_ns"]
    wall = summary["wall_ns"]
    return [
        Part(name, timeline[name], fmt.share(timeline[name], wall)) for name in PHASES if timeline.get(name)
    ]


def bar(summary: Document, width: int) -> list[tuple[str, int]]:
    """How many of `width` cells each part of the timeline fills; a part that is there fills at least one."""
    shown = parts(summary)[:width]
    total = sum(part.ns for part in shown)
    if not total:
        return []
    spare = width - len(shown)
    exact = [spare * part.ns / total for part in shown]
    cells = [1 + int(size) for size in exact]
    by_remainder = sorted(range(len(shown)), key=lambda at: int(exact[at]) - exact[at])
    for at in by_remainder[: width - sum(cells)]:
        cells[at] += 1
    return [(part.name, size) for part, size in zip(shown, cells, strict=True)]


def key(summary: Document, width: int) -> list[list[tuple[Part, str]]]:
    """The key of the bar: on each line as many parts with their figures as fit, two for sign and space each."""
    lines: list[list[tuple[Part, str]]] = [[]]
    used = 0
    for part in parts(summary):
        text = f"{part.name} {fmt.duration(part.ns)} {part.share}"
        size = 2 + len(text) + len(KEY_GAP)
        if lines[-1] and used + size - len(KEY_GAP) > width:
            lines.append([])
            used = 0
        lines[-1].append((part, text))
        used += size
    return lines


def waited_for(summary: Document) -> str:
    """`the model 62%, tools 25%, ...`: the largest first."""
    timeline = summary["timeline_ns"]
    sums = {label: sum(timeline.get(name, 0) for name in names) for label, names in _GROUPS.items()}
    if not was_retried(summary):
        sums["failed attempts"] = sums.pop(_RETRIES)
    largest = sorted((label for label in sums if sums[label]), key=lambda label: -sums[label])
    return (
        ", ".join(f"{label} {fmt.share(sums[label], summary['wall_ns'])}" for label in largest) or fmt.UNKNOWN
    )


def was_retried(summary: Document) -> bool:
    """Whether anything is known to have been tried again: without that, what failed was a failed attempt and no more.

    Args:
        summary: of a task, or of many, which have `transport_retries` alone.
    """
    counts = [*summary.get("retries", {}).values(), summary.get("transport_retries")]
    return any(counts) or bool(summary["timeline_ns"].get("backoff"))


def outcome(summary: Document) -> str:
    """`success`, `failure` or `unknown`, with the score if there is one."""
    score = summary.get("score")
    text = summary["outcome"] or "unknown"
    return text if score is None else f"{text} (score {score:g})"


def cost(summary: Document) -> str:
    """The cost with what is missing from it; a bound where something is."""
    missing = missing_from_cost(summary)
    amount = summary["cost_usd"]
    if amount is None:
        return f"unknown: {missing}" if missing else fmt.UNKNOWN
    if summary["cost_complete"]:
        return fmt.money(amount)
    return f"{fmt.at_least(amount)}, without {missing}" if missing else fmt.at_least(amount)


def short_cost(summary: Document) -> str:
    """The cost for a column: `$0.012`, `≥ $0.012`, `unknown`."""
    amount = summary["cost_usd"]
    if amount is None:
        return "unknown" if summary["calls"] else fmt.UNKNOWN
    return fmt.money(amount) if summary["cost_complete"] else fmt.at_least(amount)


def missing_from_cost(summary: Document) -> str:
    """What the cost does not include; empty if nothing is missing."""
    counts = summary["unpriced"]
    return ", ".join(fmt.plural(counts[key], *nouns) for key, nouns in _UNPRICED.items() if counts.get(key))


def tokens(summary: Document) -> str:
    """Input with the share read from a cache, output with reasoning, and who did not say; empty for no calls."""
    used = summary["tokens"]
    if not summary["calls"] and used["input"] is None and used["output"] is None:
        return ""
    text = f"{_known(used['input'])} in"
    if used["cache_read"] is not None and used["input"]:
        text += f" ({fmt.share(used['cache_read'], used['input'])} from cache)"
    text += f", {_known(used['output'])} out"
    if used["reasoning"]:
        text += f" ({fmt.count(used['reasoning'])} reasoning)"
    if used["cache_write"]:
        text += f", {fmt.count(used['cache_write'])} written to cache"
    if summary["usage_estimated_calls"]:
        text += f"; {fmt.plural(summary['usage_estimated_calls'], 'call')} estimated"
    if summary["calls_without_usage"]:
        text += f"; {fmt.plural(summary['calls_without_usage'], 'call')} did not say"
    return text


def _known(number: int | None) -> str:
    return "unknown" if number is None else fmt.count(number)


def calls(summary: Document) -> str:
    """Model calls and attempts, tool runs and the time of those that nothing marks, and errors of both."""
    text = fmt.plural(summary["calls"], "model call") if summary["calls"] else "no model calls"
    if summary["attempts"] is not None and summary["attempts"] != summary["calls"]:
        text += f" in {fmt.plural(summary['attempts'], 'attempt')}"
    runs = sum(tool["runs"] for tool in summary["tools"].values())
    inferred_ns = sum(tool.get("inferred_ns", 0) for tool in summary["tools"].values())
    if runs or not inferred_ns:
        text += f", {fmt.plural(runs, 'tool run')}"
    if inferred_ns:
        text += f", {fmt.duration(inferred_ns)} of tools inferred"
    errors = summary["errors"]
    failed = [fmt.plural(errors[kind], f"{kind} error") for kind in ("call", "tool") if errors[kind]]
    return ", ".join([text, *failed])


def retries(summary: Document) -> str:
    """Retries by kind, the time that they and failed attempts took, and what was paid for nothing; empty if
    there was none."""
    found = []
    for kind, number in summary["retries"].items():
        if number:
            found.append(f"{number:,} {kind} {'retry' if number == 1 else 'retries'}")
    timeline = summary["timeline_ns"]
    if timeline["backoff"]:
        found.append(f"{fmt.duration(timeline['backoff'])} back-off")
    if timeline["failed_attempt"]:
        found.append(f"{fmt.duration(timeline['failed_attempt'])} in failed attempts")
    wasted = summary["wasted"]
    if wasted["cost_usd"] is not None and Decimal(wasted["cost_usd"]):
        found.append(f"{fmt.money(wasted['cost_usd'])} wasted")
    return ", ".join(found)


def _retries_label(summary: Document) -> str:
    if was_retried(summary):
        return _RETRIES
    return "failed" if summary["timeline_ns"]["failed_attempt"] else "waste"


def first_token(summary: Document) -> str:
    """Time to the first token over the task's calls; empty if none was seen."""
    seen = summary["first_token_ns"]
    if seen is None:
        return ""
    if seen["p50"] == seen["max"]:
        return fmt.duration(seen["max"])
    return f"{fmt.duration(seen['p50'])} median, {fmt.duration(seen['max'])} at most"


_BOUNDARIES = {"gpu": "GPU only", "server": "whole server", "facility": "with the data centre's overhead"}
_SOURCES = {"measured": "measured", "config": "agentprof.yaml", "ecologits": "EcoLogits"}


def energy(summary: Document) -> str:
    """The energy with how it is known and what it includes; empty if nobody knows any."""
    known = summary["energy_j"]
    if known is None:
        return ""
    rows = [f"{energy_row(row)}: {fmt.plural(row['calls'], 'call')}" for row in summary["energy"]]
    missing = summary["calls_without_energy"]
    without = f"; not known of {fmt.plural(missing, 'call')}" if missing else ""
    return f"{fmt.energy(known, partial=bool(missing))} ({'; '.join(rows)}){without}"


def energy_row(row: Mapping[str, Any]) -> str:
    """How energy is known and what it includes: `agentprof.yaml, tokens, GPU only`."""
    source = _SOURCES.get(row["source"], row["source"])
    return f"{source}, {row['covers']}, {_BOUNDARIES.get(row['boundary'], row['boundary'])}"


def speed(summary: Document) -> str:
    """Measured token rates of the calls, the slowest beside the median; empty if none is known."""
    return "; ".join(
        f"{name} {_spread(rate)}" for name, rate in summary["token_rates"].items() if rate is not None
    )


def _spread(rate: Mapping[str, Any]) -> str:
    if rate["n"] == 1:
        return f"{fmt.rate(rate['p50'])} (1 call)"
    return f"{fmt.rate(rate['p50'])} median, {fmt.rate(rate['min'])} slowest ({rate['n']:,} calls)"


def facts(summary: Document) -> list[tuple[str, str]]:
    """The lines under the bar: label and text."""
    rows = [
        ("waited for", waited_for(summary)),
        ("cost", cost(summary)),
        ("tokens", tokens(summary)),
        ("calls", calls(summary)),
        ("energy", energy(summary)),
        (_retries_label(summary), retries(summary)),
        ("first token", first_token(summary)),
        ("tokens/s", speed(summary)),
        ("labels", ", ".join(f"{key}={value}" for key, value in summary["labels"].items())),
    ]
    return [(label, text) for label, text in rows if text]


def warnings(summary: Document) -> list[str]:
    """One line a warning, then one for each thing that would tell more."""
    return _doubts([*summary["warnings"], *summary.get("advice", ())])


def advice(summaries: Iterable[Document]) -> list[str]:
    """One line for each thing that would tell more of several tasks, with the calls of all of them."""
    found: dict[str, dict[str, Any]] = {}
    for summary in summaries:
        for entry in summary.get("advice", ()):
            known = found.setdefault(entry["code"], {**entry, "count": 0})
            known["count"] += entry["count"]
    return _doubts([found[code] for code in sorted(found)])


def _doubts(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for warning in entries:
        text = f"{warning['code']} ({warning['count']:,})" if warning["count"] != 1 else warning["code"]
        lines.append(f"{text}: {warning['detail']}" if warning["detail"] else text)
    return lines
