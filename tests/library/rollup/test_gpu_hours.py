"""GPUs paid by the hour: utilisation as a union of calls, and what idle hours add to tokens and successes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.spans import TASK, call, failed, observed, task, usage

from agentprof.config import parse_config
from agentprof.model import EnergyWindow, Outcome, Span
from agentprof.rollup.calls import call_rows
from agentprof.rollup.gpu_hours import BusyAndAll, GpuHourCosts, GpuHourRow, PerSuccess

HOUR = 3600 * 10**9
CONFIG = """
gpu_hours:
  - {server: gpu1, gpu_hour_usd: 2.00, gpus: 4}
"""


def costs(
    config: str,
    *tasks: tuple[Outcome | None, list[Span]],
    until: int = 10 * HOUR,
    windows: Sequence[EnergyWindow] = (),
) -> list[GpuHourRow]:
    """Of tasks with these calls, over so many hours."""
    found = GpuHourCosts(parse_config(config).gpu_hours)
    for outcome, calls in tasks:
        found.add(outcome, call_rows(TASK, [task("root", 0, until), *calls]))
    return found.rows(0, until, windows)


def on_gpu(start: float, end: float, *counts: int | None, **more: Any) -> Span:
    """A call from one hour to another."""
    fields = {"server": "gpu1:8000", "usage": usage(*counts) if counts else None} | more
    return call(f"c{start}-{end}", round(start * HOUR), round(end * HOUR), "root", **fields)


def test_overlapping_calls_are_busy_once() -> None:
    """1 to 3 and 2 to 4 and 6 to 7: 4 of 10 hours of 4 GPUs at 2 dollars."""
    (row,) = costs(
        CONFIG,
        ("success", [on_gpu(1, 3, 600_000, 100_000), on_gpu(2, 4, 100_000, 200_000)]),
        (None, [on_gpu(6, 7, 0, 0), on_gpu(1, 9, 5, 5, server="elsewhere")]),
        ("success", [on_gpu(1, 9, 5, 5, server=None)]),
    )
    assert (row.calls, row.tasks, row.busy_ns, row.call_ns) == (3, 2, 4 * HOUR, 5 * HOUR)
    assert row.utilisation == 0.4
    assert (row.cost_usd, row.busy_usd, row.idle_usd) == (80, 32, 48)
    assert (row.input_tokens, row.output_tokens, row.calls_without_usage) == (700_000, 300_000, 0)
    assert row.usd_per_million_tokens == BusyAndAll(busy=Decimal(32), with_idle=Decimal(80))
    per_output = row.usd_per_million_output_tokens
    assert per_output is not None
    assert per_output.busy == Decimal("106.6666666667")
    assert per_output.with_idle == Decimal("266.6666666667")
    # One of the two tasks that called it succeeded, of the other nobody knows.
    assert row.usd_per_success == PerSuccess(
        busy_low=Decimal(16), busy_high=Decimal(32), with_idle_low=Decimal(40), with_idle_high=Decimal(80)
    )


def test_what_is_not_the_machines_time_is_not_busy() -> None:
    """A failed attempt, the pause after it, the program's time at the end, and what lies outside the time asked for."""
    retried = on_gpu(
        0,
        4,
        10,
        10,
        attempts=2,
        failed_attempts=(failed(HOUR, HOUR // 2),),
        first_token_ns=2 * HOUR,
        phases={"client": observed(HOUR)},
    )
    (row,) = costs(CONFIG, (None, [retried, on_gpu(9, 12, 1, 1)]))
    assert row.busy_ns == HOUR * 3 // 2 + HOUR
    only_failed = on_gpu(0, 1, attempts=1, failed_attempts=(failed(HOUR),))
    (row,) = costs(CONFIG, ("failure", [only_failed]))
    assert (row.busy_ns, row.utilisation, row.busy_usd, row.idle_usd) == (0, 0, 0, 80)
    assert (row.calls_without_usage, row.usd_per_million_tokens, row.usd_per_success) == (1, None, None)


def test_a_call_belongs_to_the_first_entry_and_an_entry_without_calls_has_no_row() -> None:
    """No hour is counted for what was never called: whether it was rented is not known here."""
    config = """
gpu_hours:
  - {server: gpu1, model: big, gpu_hour_usd: 3}
  - {server: gpu1, gpu_hour_usd: 1}
  - {server: "gpu*", gpu_hour_usd: 9}
"""
    rows = costs(config, (None, [on_gpu(0, 1, 1, 1, model="big"), on_gpu(2, 4, 1, 1, model="small")]))
    assert [(row.model, row.calls, row.cost_usd) for row in rows] == [("big", 1, 30), ("*", 1, 10)]
    assert costs("", (None, [on_gpu(0, 1, 1, 1)])) == []


def test_measured_energy_of_the_endpoint_and_what_of_it_was_idle() -> None:
    """Of its own machines, in the span of time, once each; None where nobody measured."""

    def window(start: int, end: int, joules: int, running: int, **more: str) -> EnergyWindow:
        known = {"server": "gpu1", "node": "n1"} | more
        return EnergyWindow(
            start_ns=start * HOUR,
            end_ns=end * HOUR,
            energy_uj=joules * 10**6,
            running_low=0,
            running_high=running,
            **known,
        )

    first, idle = window(0, 1, 100, 3), window(1, 2, 20, 0)
    elsewhere = window(0, 1, 77, 1, server="gpu2")
    windows = [first, first, idle, window(0, 1, 50, 0, node="n2"), elsewhere, window(10, 11, 999, 1)]
    (row,) = costs(CONFIG, (None, [on_gpu(0, 1, 1, 1), on_gpu(1, 2, 1, 1)]), windows=windows)
    assert (row.energy_j, row.idle_energy_j) == (170.0, 70.0)
    (row,) = costs(CONFIG, (None, [on_gpu(0, 1, 1, 1)]), windows=[elsewhere])
    assert (row.energy_j, row.idle_energy_j) == (None, None)


@given(
    st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 12), st.integers(0, 99)), max_size=6), st.randoms()
)
def test_the_order_of_tasks_changes_nothing_and_the_parts_sum(
    found: list[tuple[int, int, int]], random: Any
) -> None:
    """Busy and idle are the whole cost, and utilisation is a share."""
    tasks: list[tuple[Outcome | None, list[Span]]] = [
        ("success", [on_gpu(start, start + length, tokens, tokens)]) for start, length, tokens in found
    ]
    rows = costs(CONFIG, *tasks)
    random.shuffle(tasks)
    assert costs(CONFIG, *tasks) == rows
    hours = {hour for start, length, _ in found for hour in range(max(start, 0), min(start + length, 10))}
    for row in rows:
        assert row.busy_ns == len(hours) * HOUR
        assert row.busy_usd + row.idle_usd == row.cost_usd == 80
        assert 0 <= row.utilisation <= 1
