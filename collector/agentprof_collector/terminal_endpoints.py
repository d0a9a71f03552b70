"""Draws how fast endpoints are, and what is estimated of their waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from agentprof import _format as fmt
from agentprof_collector.tables import Column, FittedTable

_BOUNDS = ("low_ns", "high_ns")


def draw_rates(console: Console, document: Mapping[str, Any]) -> None:
    """A row a bucket of an endpoint; quantiles with the number of calls they are made from."""
    if not document["rows"]:
        console.print("No call is stored that fits.")
        return
    by_context = document["by"] == "context"
    table = FittedTable(
        "model",
        Column("input tokens" if by_context else "in flight"),
        Column("calls"),
        Column("first token p50", 1),
        Column("p95", 2),
        Column("p99", 6),
        Column("n", 3),
        Column("generated/s p50", 1),
        Column("p95", 7),
        Column("n", 4),
        Column("read/s p50", 5),
        Column("n", 8),
        apart=True,
    )
    for row in document["rows"]:
        first, generated, read = (
            row[figure] for figure in ("first_token_ns", "generation_tokens_per_s", "prefill_tokens_per_s")
        )
        table.add(
            Text(_endpoint(row)),
            _range(row),
            f"{row['calls']:,}",
            *(fmt.duration(first[rank]) for rank in ("p50", "p95", "p99")),
            f"{first['n']:,}",
            *(_rate(generated[rank]) for rank in ("p50", "p95")),
            f"{generated['n']:,}",
            _rate(read["p50"]),
            f"{read['n']:,}",
        )
    table.print(console)
    _dim(console, "tokens a second; p95 of a rate is the fast end; p99 needs 100 calls")
    if document["calls_left_out"]:
        _dim(console, f"only the {document['calls']:,} calls of the latest tasks: --since, or filters")
    _say_hidden(console, document)


def draw_estimates(console: Console, document: Mapping[str, Any]) -> None:
    """A row an endpoint and kind of time: estimates with their interval, or why there are none."""
    if not document["rows"]:
        console.print("Nothing to estimate: no call is stored whose time is undivided.")
        return
    table = FittedTable(
        "model",
        Column("undivided", right=False),
        Column("calls"),
        Column("estimated"),
        Column("of these", 2),
        Column("queue"),
        Column("prefill", 1),
        Column("generation", 3),
        Column("network", 4, extra=True),
        apart=True,
    )
    for row in document["rows"]:
        phases = row["phases_ns"] or {}
        table.add(
            Text(_endpoint(row)),
            row["divides"],
            f"{row['calls']:,}",
            f"{row['answered']:,}",
            fmt.duration(row["answered_ns"]) if row["answered"] else fmt.UNKNOWN,
            *(_interval(phases.get(phase)) for phase in ("queue", "prefill", "generation", "network")),
        )
    table.print(console)
    _say_what_is_not_estimated(console, document)
    if any(row["answered"] for row in document["rows"]):
        _dim(console, "sums of the bounds of each call")
    _say_how_far_they_are_off(console, document)
    _say_hidden(console, document)


def draw_estimated(console: Console, document: Mapping[str, Any]) -> None:
    """Below a task: what its undivided times were made of."""
    found = document["estimated"]
    if not found["rows"]:
        _dim(console, "nothing to estimate: no time of a call is undivided")
    for row in found["rows"]:
        if row["phases_ns"]:
            phases = ", ".join(f"{phase} {_interval(ns)}" for phase, ns in row["phases_ns"].items())
            of = f"{row['divides']} {fmt.duration(row['answered_ns'])}"
            calls = f"{row['answered']:,} of {fmt.plural(row['calls'], 'call')}"
            console.print(Text(f"{of} of {_endpoint(row)}, {calls}: {phases}"))
    _say_what_is_not_estimated(console, found)
    _say_how_far_they_are_off(console, found)


def _say_what_is_not_estimated(console: Console, document: Mapping[str, Any]) -> None:
    """One line a reason why calls of an endpoint have no estimate."""
    for row in document["rows"]:
        for reason, number in row["not_answered"].items():
            what = f"{row['divides']} of {fmt.plural(number, 'call')} of {_endpoint(row)} not estimated"
            _dim(console, f"{what}: {document['reasons'].get(reason, reason)}")


def _say_how_far_they_are_off(console: Console, document: Mapping[str, Any]) -> None:
    """The words that stand beside every estimate."""
    for divides in sorted({row["divides"] for row in document["rows"] if row["answered"]}):
        _dim(console, f"{divides}: {document['validated'][divides]}")


def _endpoint(row: Mapping[str, Any]) -> str:
    name = row["model"] or "unknown model"
    if row["server"]:
        name += f" at {row['server']}"
    return f"{name}, {row['service_tier']}" if row["service_tier"] else name


def _range(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return "unknown"
    return f"{row['low']:,}" if row["low"] == row["high"] else f"{row['low']:,} to {row['high']:,}"


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return fmt.UNKNOWN
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _interval(ns: Mapping[str, int] | None) -> str:
    if ns is None:
        return fmt.UNKNOWN
    low, high = (fmt.duration(ns[bound]) for bound in _BOUNDS)
    return low if low == high else f"{low} to {high}"


def _say_hidden(console: Console, document: Mapping[str, Any]) -> None:
    hidden = document["count"] - len(document["rows"])
    if hidden > 0:
        _dim(console, f"{hidden:,} more not shown: --limit")


def _dim(console: Console, text: str) -> None:
    console.print(Text(text, style="dim"))
