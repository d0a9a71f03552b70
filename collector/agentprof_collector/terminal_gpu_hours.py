"""Draws what tokens and successes cost on GPUs paid by the hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from agentprof import _format as fmt
from agentprof_collector.tables import Column, FittedTable


def draw_gpu_hours(console: Console, document: Mapping[str, Any]) -> None:
    """A row an endpoint, or why there is none."""
    if not document["entries"]:
        console.print("agentprof.yaml has no gpu_hours: what the GPUs of an endpoint cost by the hour.")
        return
    if not document["rows"]:
        console.print("No call went to what gpu_hours in agentprof.yaml names.")
        return
    table = FittedTable(
        "endpoint",
        Column("used"),
        Column("at once", 5),
        Column("cost"),
        Column("of it idle", 1),
        Column("per M tokens"),
        Column("busy only", 3),
        Column("per M out", 4),
        Column("per success", 2),
        apart=True,
    )
    for row in document["rows"]:
        table.add(
            Text(_endpoint(row)),
            fmt.share(row["utilisation"], 1.0),
            f"{row['call_ns'] / row['busy_ns']:.1f}" if row["busy_ns"] else fmt.UNKNOWN,
            fmt.money(row["cost_usd"]),
            fmt.money(row["idle_usd"]),
            _amount(row["usd_per_million_tokens"], "with_idle"),
            _amount(row["usd_per_million_tokens"], "busy"),
            _amount(row["usd_per_million_output_tokens"], "with_idle"),
            _per_success(row["usd_per_success"]),
        )
    table.print(console)
    span_ns = document["end_ns"] - document["start_ns"]
    console.print(
        Text(
            f"over {fmt.duration(span_ns)} of {fmt.plural(document['tasks'], 'task')}; used: with a call in progress. "
            "Idle hours are in the figures but for “busy only”; none of this is in a task's cost.",
            style="dim",
        )
    )
    for row in document["rows"]:
        if row["energy_j"] is not None:
            console.print(Text(f"{_endpoint(row)}: {_energy(row)}", style="dim"))
    lacking = sum(row["calls_without_usage"] for row in document["rows"])
    if lacking:
        console.print(Text(f"{fmt.plural(lacking, 'call')} did not say all tokens", style="dim"))


def _endpoint(row: Mapping[str, Any]) -> str:
    """`gpu1:8000, 4 GPUs at $2.00/h`, with the model where the entry names one."""
    names = [row[name] for name in ("server", "model") if row[name] != "*"]
    return f"{' '.join(names)}, {fmt.plural(row['gpus'], 'GPU')} at {fmt.money(row['gpu_hour_usd'])}/h"


def _energy(row: Mapping[str, Any]) -> str:
    """`1.25 MJ taken by its GPUs, of it 310 kJ with no request running`."""
    whole, idle = ({"low": row[name], "high": row[name]} for name in ("energy_j", "idle_energy_j"))
    return f"{fmt.energy(whole)} taken by its GPUs, of it {fmt.energy(idle)} with no request running"


def _amount(figure: Mapping[str, Any] | None, which: str) -> str:
    return fmt.UNKNOWN if figure is None else fmt.money(figure[which])


def _per_success(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return fmt.UNKNOWN
    low, high = fmt.money(figure["with_idle_low"]), fmt.money(figure["with_idle_high"])
    return low if low == high else f"{low} to {high}"
