"""Measured energy: a window's joules divide among the requests running, and a call needs all of its time covered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spans import TASK, call, failed, reported, task, usage

from agentprof.model import Energy, EnergyWindow, Facts, Span
from agentprof.rollup import roll_up
from agentprof.rollup.calls import call_rows
from agentprof.rollup.waterfall import waterfall
from agentprof.summary import TaskSummary

J = 10**6
SERVER = "gpu1:8000"


def window(
    start: int, end: int, joules: int, low: int = 1, high: int | None = None, **more: Any
) -> EnergyWindow:
    fields = {"server": SERVER, "node": "n1"} | more
    return EnergyWindow(
        start_ns=start,
        end_ns=end,
        energy_uj=joules * J,
        running_low=low,
        running_high=low if high is None else high,
        **fields,
    )


def summary(calls: list[Span], *windows: EnergyWindow) -> TaskSummary:
    return roll_up(TASK, [task("root", 0, 1000), *calls], Facts(windows=windows))


def joules(calls: list[Span], *windows: EnergyWindow) -> tuple[float, float] | None:
    found = summary(calls, *windows).energy_j
    return None if found is None else (found["low"], found["high"])


def on_gpu(start: int, end: int, **more: Any) -> Span:
    """A call that is worked on all of its time, unless its phases say otherwise."""
    fields = {"server": SERVER, "phases": {"queue": reported(0)}} | more
    return call(f"c{start}-{end}", start, end, "root", **fields)


def test_alone_on_the_machine_it_is_exact() -> None:
    """All of the second window and half of the first and the third: 10 + 30 + 5."""
    windows = (window(0, 100, 20), window(100, 200, 30), window(200, 300, 10))
    found = summary([on_gpu(50, 250)], *windows)
    assert found.energy_j == {"low": 45.0, "high": 45.0}
    (row,) = found.energy
    assert (row.source, row.boundary, row.covers, row.calls) == (
        "measured",
        "gpu",
        "busy time",
        1,
    )
    assert row.basis == "NVML"


def test_others_share_also_those_nobody_sees() -> None:
    """Four running all the time: a quarter; between two and five: from a fifth to a half."""
    assert joules([on_gpu(0, 100)], window(0, 100, 40, 4)) == (10, 10)
    assert joules([on_gpu(0, 100)], window(0, 100, 40, 2, 5)) == (8, 20)
    assert joules([on_gpu(20, 40)], window(0, 100, 40, 0, 0)) == (8, 8)


def basis(calls: list[Span], *windows: EnergyWindow) -> list[str | None]:
    return [row.basis for row in summary(calls, *windows).energy]


def test_tokens_in_flight_widen_the_interval() -> None:
    """40 J twice among 4 are 20; prompt and answer are 800 of the 1000 tokens of the second window: 32."""
    span = on_gpu(0, 200, first_token_ns=100, usage=usage(600, 200), phases={"prefill": reported(100)})
    both = (window(0, 100, 40, 4, tokens=300), window(100, 200, 40, 4, tokens=1000))
    assert joules([span], *both) == (20, 32)
    assert basis([span], *both) == ["NVML, by requests and tokens"]
    # Generated tokens alone: 100 of 400 in each window are a quarter by both rules.
    spread = on_gpu(0, 200, usage=usage(0, 200))
    assert joules([spread], window(0, 100, 40, 4, tokens=400), window(100, 200, 40, 4, tokens=400)) == (
        20,
        20,
    )
    # Hardly any of the tokens: less than a quarter.
    assert joules([spread], window(0, 100, 40, 4, tokens=1000), window(100, 200, 40, 4, tokens=1000)) == (
        8,
        20,
    )


def test_without_tokens_on_either_side_requests_alone_divide() -> None:
    """Neither a call whose tokens nobody counted, nor a window of an engine that does not count by steps."""
    counted, uncounted = window(0, 100, 40, 4, tokens=10), window(0, 100, 40, 4)
    assert (
        joules([on_gpu(0, 100)], counted)
        == joules([on_gpu(0, 100, usage=usage(5, 5))], uncounted)
        == (10, 10)
    )
    assert basis([on_gpu(0, 100)], counted) == ["NVML, by requests"]


def test_alone_no_rule_divides() -> None:
    """Whatever the engine counted: tokens that it counts a moment later, say."""
    span = on_gpu(0, 100, usage=usage(5, 5))
    assert joules([span], window(0, 100, 40, tokens=100)) == (40, 40)
    assert basis([span], window(0, 100, 40, tokens=100)) == ["NVML"]


def test_more_tokens_than_the_engine_counted_are_not_more_than_all() -> None:
    """Its count comes late, or is of another time: at most the whole window."""
    span = on_gpu(0, 100, usage=usage(0, 500))
    for tokens in (0, 50):
        assert joules([span], window(0, 100, 40, 4, tokens=tokens)) == (10, 40)


def test_only_its_time_in_the_engine_counts() -> None:
    """A failed attempt, a pause, the queue and the network are not work: 40 of 100 are."""
    span = on_gpu(
        0,
        100,
        attempts=2,
        failed_attempts=(failed(20, 10),),
        first_token_ns=80,
        queue_starts_late=True,
        phases={"queue": reported(10), "prefill": reported(20)},
    )
    assert joules([span], window(0, 50, 0), window(50, 60, 600), window(60, 100, 40)) == (40, 40)


def engine_says(**phases: int) -> dict[str, Any]:
    return {"phases": {name: reported(ns) for name, ns in phases.items()}}


@pytest.mark.parametrize(
    ("known", "bounds"),
    [
        # Nothing told apart: it may have waited for another's answer almost to its end.
        ({"phases": {}}, (0, 100)),
        ({"phases": {}, "first_token_ns": 70}, (30, 100)),
        # A wait beside a prefill is none of the engine's work, one beside a queue is nothing else.
        (engine_says(prefill=20, generation=30), (50, 50)),
        (engine_says(prefill=20, generation=30) | {"first_token_ns": 70}, (50, 50)),
        (engine_says(prefill=20), (20, 100)),
        (engine_says(queue=60), (40, 40)),
        (engine_says(queue=60) | {"first_token_ns": 70}, (40, 40)),
        (engine_says(queue=0) | {"first_token_ns": 70}, (100, 100)),
        (engine_says(queue=50, prefill=20, generation=30), (50, 50)),
    ],
)
def test_an_untold_queue_widens_the_interval_downwards(
    known: dict[str, Any], bounds: tuple[float, float]
) -> None:
    """One request runs at a time, at 1 J a moment: whose it is while a call may be queued nobody knows."""
    assert joules([on_gpu(0, 100, **known)], window(0, 60, 60), window(60, 100, 40)) == bounds


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_calls_that_wait_for_each_other_take_no_more_than_was_measured(streamed: bool, told: bool) -> None:
    """Four asked at once, answered one after the other, 100 J each: the low bounds are no more than these 400 J."""
    calls = []
    for place in range(4):
        end = 100 * (place + 1)
        more: dict[str, Any] = {"phases": {}}
        if streamed:
            more["first_token_ns"] = end - 60
        if told:
            more |= engine_says(prefill=40, generation=60)
        calls.append(on_gpu(0, end, **more))
    low, high = joules(calls, window(0, 250, 250), window(250, 400, 150)) or (None, None)
    assert low == (400 if told else 240 if streamed else 0)
    assert high == (400 if told else 1000)


@pytest.mark.parametrize(
    "windows",
    [
        (),
        (window(0, 90, 1),),
        (window(10, 200, 1),),
        (window(0, 50, 1), window(51, 200, 1)),
        (window(0, 200, 1, server="gpu2:8000"),),
        (window(0, 100, 1, server="gpu1:8001"),),
        (window(100, 200, 1),),
    ],
)
def test_without_all_of_its_time_there_is_none(windows: tuple[EnergyWindow, ...]) -> None:
    """A part of it is not known to be like the rest; what was reckoned by rates stays."""
    assert joules([on_gpu(0, 100)], *windows) is None
    rated = Energy(low_uj=J, high_uj=2 * J, source="config", boundary="gpu", covers="tokens")
    assert joules([on_gpu(0, 100, energy=rated)], *windows) == (1, 2)


def test_what_is_measured_wins_over_rates() -> None:
    """The stored span keeps what was reckoned; the summary has what was counted."""
    rated = Energy(low_uj=J, high_uj=2 * J, source="config", boundary="facility", covers="tokens")
    found = summary([on_gpu(0, 100, energy=rated), on_gpu(300, 400, energy=rated)], window(0, 100, 7))
    assert [(row.source, row.low_j, row.calls) for row in found.energy] == [
        ("measured", 7.0, 1),
        ("config", 1.0, 1),
    ]


def test_two_machines_of_one_endpoint_add_up() -> None:
    """Each with windows of its own; one that was not watched at the time is not asked for."""
    other = (window(0, 60, 6, node="n2"), window(60, 200, 14, node="n2"), window(500, 600, 99, node="n3"))
    assert joules([on_gpu(0, 100)], window(0, 100, 10), *other) == (20, 20)


def test_an_endpoint_may_be_named_without_its_port() -> None:
    """Then all ports are it; the name in full goes before."""
    host = window(0, 100, 10, server="GPU1")
    assert joules([on_gpu(0, 100)], host) == (10, 10)
    assert joules([on_gpu(0, 100)], host, window(0, 100, 3)) == (3, 3)


def test_windows_that_overlap_count_once() -> None:
    """Delivered again, or measured by two at the same time: the first that begins holds."""
    twice = (window(0, 100, 10), window(0, 100, 10), window(50, 150, 77), window(100, 200, 4))
    assert joules([on_gpu(0, 150)], *twice) == (12, 12)


def test_rows_of_calls_and_the_waterfall_say_the_same() -> None:
    """With the same windows."""
    spans = [task("root", 0, 1000), on_gpu(0, 100)]
    (row,) = call_rows(TASK, spans, [window(0, 100, 10)])
    assert (row.energy_j, row.energy_source) == ({"low": 10.0, "high": 10.0}, "measured")
    drawn = waterfall(TASK, spans, windows=[window(0, 100, 10)]).rows
    assert [run.energy_j for run in drawn] == [None, {"low": 10.0, "high": 10.0}]
    assert call_rows(TASK, spans)[0].energy_j is None


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 50), st.integers(0, 2)), min_size=1, max_size=8),
    st.randoms(),
)
def test_no_order_changes_it_and_no_joule_is_made(
    calls: list[tuple[int, int]], measured: list[tuple[int, int, int]], random: Any
) -> None:
    """Where the count of the engine is right the low shares of all calls are never more than what was measured."""
    spans = [
        call(f"c{number}", start, start + length, "root", server=SERVER)
        for number, (start, length) in enumerate(calls)
    ]
    windows, at = [], 0
    for length, joule, unseen in measured:
        here = [
            sum(start <= moment < start + size for start, size in calls) for moment in range(at, at + length)
        ]
        windows.append(window(at, at + length, joule, min(here) + unseen, max(here) + unseen))
        at += length
    whole = summary(spans, *windows)
    random.shuffle(windows)
    random.shuffle(spans)
    assert summary(spans, *windows, windows[0]) == whole
    if whole.energy_j is not None:
        assert 0 <= whole.energy_j["low"] <= whole.energy_j["high"]
        assert whole.energy_j["low"] <= sum(joule for _, joule, _ in measured)
