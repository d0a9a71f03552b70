"""What reported times can be beside what was seen, and what follows from two of them."""

from __future__ import annotations

from typing import Any

import pytest
from support.spans import observed, reported

from agentprof.model import Call, Phase
from agentprof.rollup.phases import fill_phases

MS = 1_000_000


def ms(phase: Phase, field: str | None = None) -> Phase:
    return Phase(ns=phase.ns * MS, source=phase.source, field=field)


def told(length: int, field: str) -> Phase:
    return ms(reported(length), field)


def derived(length: int, field: str) -> Phase:
    return Phase(ns=length * MS, source="derived", field=field)


# Of each: what is known, and the division of 1,000 ms.
FOLLOWS: dict[str, tuple[dict[str, Any], list[tuple[str, int, str]]]] = {
    "a wait, with a first token": (
        {"first_token_ns": 300 * MS, "phases": {"wait": told(280, "ttft")}},
        [("network", 20, "derived"), ("wait", 280, "reported"), ("generation", 700, "observed")],
    ),
    "a wait and nothing else": (
        {"phases": {"wait": told(280, "ttft")}},
        [("wait", 280, "reported"), ("model", 720, "observed")],
    ),
    "a wait and a whole": (
        {"phases": {"wait": told(280, "ttft"), "model": told(900, "total")}},
        [("network", 100, "derived"), ("wait", 280, "reported"), ("generation", 620, "derived")],
    ),
    "a whole with a first token": (
        {"first_token_ns": 300 * MS, "phases": {"model": told(950, "total")}},
        [("network", 50, "derived"), ("wait", 250, "observed"), ("generation", 700, "observed")],
    ),
    "a whole and two parts": (
        {"phases": {"model": told(900, "total"), "prefill": told(100, "p"), "generation": told(600, "g")}},
        [
            ("network", 100, "derived"),
            ("queue", 200, "derived"),
            ("prefill", 100, "reported"),
            ("generation", 600, "reported"),
        ],
    ),
    "a whole and a queue": (
        {"phases": {"model": told(900, "total"), "queue": told(100, "q")}},
        [("network", 100, "derived"), ("queue", 100, "reported"), ("model", 800, "derived")],
    ),
    "a wait and a queue": (
        {"first_token_ns": 300 * MS, "phases": {"wait": told(280, "ttft"), "queue": told(100, "q")}},
        [
            ("network", 20, "derived"),
            ("queue", 100, "reported"),
            ("prefill", 180, "derived"),
            ("generation", 700, "observed"),
        ],
    ),
    "all parts of a whole answer, the queue starts late": (
        {
            "queue_starts_late": True,
            "phases": {"queue": told(50, "q"), "prefill": told(100, "p"), "generation": told(600, "g")},
        },
        [("queue", 300, "derived"), ("prefill", 100, "reported"), ("generation", 600, "reported")],
    ),
    # llama.cpp on a busy machine: by the headers the queue ended late, and the engine's own times are certain.
    "a late queue leaves room for connecting": (
        {
            "first_token_ns": 410 * MS,
            "phases": {
                "connect": ms(observed(2)),
                "queue": derived(108, "headers - request"),
                "prefill": told(300, "p"),
                "generation": told(594, "g"),
            },
        },
        [
            ("connect", 2, "observed"),
            ("queue", 104, "derived"),
            ("prefill", 300, "reported"),
            ("generation", 594, "reported"),
        ],
    ),
    "a late queue leaves room for connecting before the first token": (
        {
            "first_token_ns": 410 * MS,
            "phases": {
                "connect": ms(observed(2)),
                "queue": derived(110, "first token - prefill"),
                "prefill": told(300, "p"),
            },
        },
        [
            ("connect", 2, "observed"),
            ("queue", 108, "derived"),
            ("prefill", 300, "reported"),
            ("generation", 590, "observed"),
        ],
    ),
    # What the server took until its headers is known, and so the way to it and back.
    "a way derived from headers": (
        {"first_token_ns": 300 * MS, "phases": {"network": derived(30, "headers - processing")}},
        [("network", 30, "derived"), ("wait", 270, "observed"), ("generation", 700, "observed")],
    ),
    # The program read slowly: 650 ms were its own, and the engine generated in 400 of the 700.
    "a slow reader of a server that says how long it generated": (
        {
            "first_token_ns": 300 * MS,
            "phases": {"generation": told(400, "g"), "client": ms(observed(650))},
        },
        [("wait", 300, "observed"), ("generation", 400, "reported"), ("client", 300, "observed")],
    ),
}


@pytest.mark.parametrize(("known", "expected"), FOLLOWS.values(), ids=FOLLOWS.keys())
def test_what_follows(known: dict[str, Any], expected: list[tuple[str, int, str]]) -> None:
    """Each stretch with its length and source, in order."""
    division = fill_phases(Call(**known), 1_000 * MS)
    assert [(name, ns // MS, source) for name, ns, source in division.segments] == expected
    assert division.faults == ()
    assert not division.overflow


# Of each: what is known, the faults, and the division of 1,000 ms.
IMPOSSIBLE: dict[str, tuple[dict[str, Any], tuple[str, ...], list[tuple[str, int]]]] = {
    "longer than the call": (
        {"phases": {"generation": told(1_100, "g")}},
        ("g: longer than the call",),
        [("model", 1_000)],
    ),
    "a sum longer than the call": (
        {"phases": {"queue": told(400, "q"), "prefill": told(300, "p"), "generation": told(400, "g")}},
        ("q + p + g: longer than the call",),
        [("model", 1_000)],
    ),
    "prefill after the first token": (
        {"first_token_ns": 100 * MS, "phases": {"prefill": told(300, "p")}},
        ("p: longer than the time to the first token",),
        [("wait", 100), ("generation", 900)],
    ),
    "a wait after the first token": (
        {"first_token_ns": 100 * MS, "phases": {"wait": told(300, "ttft")}},
        ("ttft: longer than the time to the first token",),
        [("wait", 100), ("generation", 900)],
    ),
    # What was only derived goes before what the engine says itself.
    "a derived queue that cannot be": (
        {
            "first_token_ns": 300 * MS,
            "phases": {"queue": derived(280, "headers - request"), "prefill": told(100, "p")},
        },
        ("headers - request + p: longer than the time to the first token",),
        [("wait", 200), ("prefill", 100), ("generation", 700)],
    ),
    "a part longer than its whole": (
        {"phases": {"model": told(300, "total"), "wait": told(500, "ttft")}},
        ("ttft: longer than the whole it is part of",),
        [("network", 700), ("model", 300)],
    ),
}


@pytest.mark.parametrize(("known", "faults", "expected"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_cannot_be(
    known: dict[str, Any], faults: tuple[str, ...], expected: list[tuple[str, int]]
) -> None:
    """It is named with its field and claims no time; the call is divided by the rest."""
    division = fill_phases(Call(**known), 1_000 * MS)
    assert division.faults == faults
    assert [(segment.name, segment.ns // MS) for segment in division.segments] == expected
    assert not division.overflow


def test_a_derived_figure_of_a_busy_client() -> None:
    """Stamps are late by a little: what is derived from them is shortened by so much, and is no fault."""
    phases = {"queue": derived(220, "headers - request"), "prefill": told(100, "p")}
    division = fill_phases(Call(first_token_ns=300 * MS, phases=phases), 1_000 * MS)
    assert division.faults == ()
    assert not division.overflow
    assert [(segment.name, segment.ns // MS) for segment in division.segments] == [
        ("queue", 200),
        ("prefill", 100),
        ("generation", 700),
    ]


@pytest.mark.parametrize("excess_ms", [1, 5])
def test_a_little_too_long(excess_ms: int) -> None:
    """Two clocks differ by a few milliseconds: that is cut, and said, and no fault."""
    phases = {"prefill": told(400, "p"), "generation": told(600 + excess_ms, "g")}
    division = fill_phases(Call(phases=phases), 1_000 * MS)
    assert division.faults == ()
    assert division.overflow
    assert sum(segment.ns for segment in division.segments) == 1_000 * MS
    assert {segment.name for segment in division.segments} == {"prefill", "generation"}
