"""How a call is divided, by what is known of it."""

from __future__ import annotations

from typing import Any

import pytest
from support.spans import failed, observed, reported

from agentprof.model import Call, Phase
from agentprof.rollup.phases import fill_phases

JOINED_QUEUE = Phase(ns=10, source="joined")

CASES: dict[str, tuple[dict[str, Any], list[tuple[str, int, str]]]] = {
    "nothing is known": ({}, [("model", 100, "observed")]),
    "a first token and no more": (
        {"first_token_ns": 30},
        [("wait", 30, "observed"), ("generation", 70, "observed")],
    ),
    "a stream with its last token before the end": (
        {"first_token_ns": 30, "phases": {"generation": observed(60), "client": observed(10)}},
        [("wait", 30, "observed"), ("generation", 60, "observed"), ("client", 10, "observed")],
    ),
    # llama.cpp: prefill and generation, never the queue; the wait stands in the queue's place.
    "prefill known, queue not": (
        {"first_token_ns": 30, "phases": {"prefill": reported(20)}},
        [("wait", 10, "observed"), ("prefill", 20, "reported"), ("generation", 70, "observed")],
    ),
    "queue known, prefill not": (
        {"first_token_ns": 30, "phases": {"queue": reported(20)}},
        [("queue", 20, "reported"), ("wait", 10, "observed"), ("generation", 70, "observed")],
    ),
    "both known, the queue from arrival": (
        {"first_token_ns": 30, "phases": {"queue": reported(5), "prefill": reported(20)}},
        [
            ("network", 5, "derived"),
            ("queue", 5, "reported"),
            ("prefill", 20, "reported"),
            ("generation", 70, "observed"),
        ],
    ),
    # vLLM's queue starts late: what passed before it was queueing too, and the phase carries the weaker source.
    "both known, the queue starts late": (
        {
            "first_token_ns": 30,
            "queue_starts_late": True,
            "phases": {"queue": reported(5), "prefill": reported(20)},
        },
        [("queue", 10, "derived"), ("prefill", 20, "reported"), ("generation", 70, "observed")],
    ),
    "connecting was seen": (
        {"first_token_ns": 30, "phases": {"connect": observed(4)}},
        [("connect", 4, "observed"), ("wait", 26, "observed"), ("generation", 70, "observed")],
    ),
    "no first token, all parts reported": (
        {"phases": {"queue": reported(10), "prefill": reported(20), "generation": reported(40)}},
        [
            ("network", 30, "derived"),
            ("queue", 10, "reported"),
            ("prefill", 20, "reported"),
            ("generation", 40, "reported"),
        ],
    ),
    "no first token, a total without parts": (
        {"phases": {"model": reported(80)}},
        [("network", 20, "derived"), ("model", 80, "reported")],
    ),
    "no first token, only the queue": (
        {"phases": {"queue": reported(20)}},
        [("queue", 20, "reported"), ("model", 80, "observed")],
    ),
    "no first token, only prefill": (
        {"phases": {"prefill": reported(20)}},
        [("prefill", 20, "reported"), ("model", 80, "observed")],
    ),
    # A proxy held the stream back: the engine generated for 60, the client saw tokens for 10.
    "generation longer than seen": (
        {"first_token_ns": 90, "phases": {"generation": reported(60)}},
        [("wait", 40, "observed"), ("generation", 60, "reported")],
    ),
    "a retry": (
        {"attempts": 2, "failed_attempts": (failed(20, 10),), "first_token_ns": 60},
        [
            ("failed_attempt", 20, "observed"),
            ("backoff", 10, "observed"),
            ("wait", 30, "observed"),
            ("generation", 40, "observed"),
        ],
    ),
    "all attempts failed": (
        {"attempts": 2, "failed_attempts": (failed(20, 10), failed(65))},
        [
            ("failed_attempt", 20, "observed"),
            ("backoff", 10, "observed"),
            ("failed_attempt", 65, "observed"),
            ("failed_attempt", 5, "observed"),
        ],
    ),
    "a retry and then nothing known": (
        {"attempts": 2, "failed_attempts": (failed(20, 10),)},
        [("failed_attempt", 20, "observed"), ("backoff", 10, "observed"), ("model", 70, "observed")],
    ),
}


@pytest.mark.parametrize(("known", "expected"), CASES.values(), ids=CASES.keys())
def test_a_call_is_filled_by_what_is_known(
    known: dict[str, Any], expected: list[tuple[str, int, str]]
) -> None:
    """Each stretch with its length and source, in order."""
    filled = fill_phases(Call(**known), 100)
    assert [tuple(segment) for segment in filled.segments] == expected
    assert not filled.overflow


OVERFLOWS: dict[str, tuple[dict[str, Any], list[tuple[str, int]]]] = {
    # 150 of evidence in 100: the observed connect gives way before the reported parts, network before queue.
    "the weakest source gives way first": (
        {
            "phases": {
                "connect": observed(30),
                "queue": reported(40),
                "prefill": reported(30),
                "generation": reported(50),
            }
        },
        [("queue", 20), ("prefill", 30), ("generation", 50)],
    ),
    "joined gives way before reported": (
        {"first_token_ns": 25, "phases": {"queue": JOINED_QUEUE, "prefill": reported(20)}},
        [("queue", 5), ("prefill", 20), ("generation", 75)],
    ),
    "attempts longer than the call": (
        {"attempts": 3, "failed_attempts": (failed(80, 10), failed(30, 5))},
        [("failed_attempt", 80), ("backoff", 10), ("failed_attempt", 10)],
    ),
    "a first token after the end": ({"first_token_ns": 120}, [("wait", 100)]),
    "a first token before the last attempt": (
        {"attempts": 2, "failed_attempts": (failed(50),), "first_token_ns": 20},
        [("failed_attempt", 50), ("generation", 50)],
    ),
}


@pytest.mark.parametrize(("known", "expected"), OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_evidence_that_does_not_fit_is_cut_and_said(
    known: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    """The call is filled all the same, and the overflow is known."""
    filled = fill_phases(Call(**known), 100)
    assert [(segment.name, segment.ns) for segment in filled.segments] == expected
    assert filled.overflow


def test_a_part_of_the_wait_is_kept_beside_it() -> None:
    """Without a first token, too: a queue or a prefill that is reported has its length, whatever was waited."""
    for name in ("queue", "prefill"):
        for waited in (0, 5, 70):
            call = Call(phases={name: reported(30), "wait": observed(waited)})
            filled = fill_phases(call, 100)
            assert {s.name: s.ns for s in filled.segments} == {name: 30, "model": 70}
            assert not filled.overflow
    assert fill_phases(Call(phases={"prefill": reported(30), "wait": observed(0)}), 0).overflow
