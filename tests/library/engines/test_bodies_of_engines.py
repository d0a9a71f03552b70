"""What each engine says of its time in its bodies, as hand-computed phases of whole calls."""

from __future__ import annotations

import pytest
from support.engine_answers import (
    CEREBRAS,
    CHOICE,
    DYNAMO,
    FIREWORKS,
    FIREWORKS_SHARED,
    GROQ,
    LLAMA,
    LOCALAI,
    NIM,
    OLLAMA,
    SAMBANOVA,
    SGLANG,
    USAGE,
    VLLM,
    read,
    read_last,
)

from agentprof.dialects import Answer
from agentprof.model import Call
from agentprof.rollup.phases import fill_phases

MS = 1_000_000
WHOLE_NS = 1_500 * MS
"""How long the client waited for every answer here: the engines had it for 1,480 ms."""


def filled(
    answer: Answer, *, late: bool = False, first_token_ms: int | None = None
) -> list[tuple[str, int, str]]:
    """The call by what its answer says, in ms."""
    call = Call(
        phases=answer.phases,
        queue_starts_late=late,
        first_token_ns=None if first_token_ms is None else first_token_ms * MS,
    )
    division = fill_phases(call, WHOLE_NS)
    assert sum(segment.ns for segment in division.segments) == WHOLE_NS
    assert not division.faults
    assert not division.overflow
    return [(segment.name, round(segment.ns / MS), segment.source) for segment in division.segments]


# Of each: the answer, the engine it tells, and the division of 1,500 ms.
WHOLE: dict[str, tuple[Answer, str, list[tuple[str, int, str]]]] = {
    # Its queue figure starts late: what is left is queueing too.
    "vllm": (
        read(VLLM),
        "vllm",
        [("queue", 70, "derived"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "sglang": (
        read({"choices": [CHOICE | {"matched_stop": 2, "meta_info": SGLANG}]}),
        "sglang",
        [
            ("network", 30, "derived"),
            ("queue", 50, "reported"),
            ("prefill", 150, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Thrown out and queued again: the queue is what preceded prefill, with the front end before it.
    "sglang, retracted": (
        read(
            {
                "choices": [
                    CHOICE
                    | {"meta_info": SGLANG | {"num_retractions": 1, "queue_time": 0.4}, "matched_stop": 2}
                ]
            }
        ),
        "sglang",
        [
            ("network", 22, "derived"),
            ("queue", 58, "derived"),
            ("prefill", 150, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Always the whole, and no more where its metrics are off.
    "sglang without metrics": (
        read({"choices": [CHOICE | {"matched_stop": 2, "meta_info": {"e2e_latency": 1.478}}]}),
        "sglang",
        [("network", 22, "derived"), ("model", 1478, "reported")],
    ),
    # Waiting for a slot is in no field, nor is the way there: the rest is undivided.
    "llama.cpp": (
        read({"timings": LLAMA}),
        "llama.cpp",
        [("wait", 70, "observed"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "localai": (
        read({"usage": USAGE | LOCALAI}),
        "localai",
        [("wait", 70, "observed"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    # Its total is known, so that the wait for a slot, in no field, is told from the way there.
    "ollama": (
        read(OLLAMA, "/api/chat"),
        "ollama",
        [
            ("network", 20, "derived"),
            ("queue", 50, "derived"),
            ("prefill", 160, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Older releases say nothing of a prompt that was kept from before.
    "ollama, older, the whole prompt cached": (
        read(
            {name: value for name, value in OLLAMA.items() if not name.startswith("prompt_eval")}, "/api/chat"
        ),
        "ollama",
        [("network", 20, "derived"), ("wait", 210, "derived"), ("generation", 1270, "reported")],
    ),
    # What it calls prefill holds the worker's queue: only their sum is known.
    "dynamo": (
        read({"nvext": {"timing": DYNAMO}}),
        "dynamo",
        [("network", 20, "derived"), ("wait", 208, "reported"), ("generation", 1272, "derived")],
    ),
    # The mean of 127 gaps; whether its time to the first token holds the queue is not said.
    "nim": (
        read({"stats": NIM}),
        "nim",
        [("queue", 40, "reported"), ("wait", 190, "observed"), ("generation", 1270, "derived")],
    ),
    "groq": (
        read({"usage": USAGE | GROQ}),
        "groq",
        [
            ("network", 1218, "derived"),
            ("queue", 30, "reported"),
            ("prefill", 12, "reported"),
            ("generation", 240, "reported"),
        ],
    ),
    "cerebras": (
        read({"time_info": CEREBRAS | {"created": 1790000000}}),
        "cerebras",
        [
            ("network", 1435, "derived"),
            ("queue", 0, "reported"),
            ("prefill", 4, "reported"),
            ("generation", 60, "reported"),
        ],
    ),
    # Three queues are one; tokenizing (4 ms) is neither queue nor prefill.
    "fireworks, dedicated": (
        read({"perf_metrics": FIREWORKS}),
        "fireworks",
        [
            ("network", 32, "derived"),
            ("queue", 38, "reported"),
            ("prefill", 160, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    "fireworks, shared": (
        read({"perf_metrics": FIREWORKS_SHARED}),
        "fireworks",
        [("network", 28, "derived"), ("wait", 202, "reported"), ("generation", 1270, "derived")],
    ),
    "sambanova": (
        read({"usage": USAGE | SAMBANOVA}),
        "sambanova",
        [("network", 30, "derived"), ("wait", 200, "reported"), ("generation", 1270, "derived")],
    ),
}


@pytest.mark.parametrize(("answer", "engine", "expected"), WHOLE.values(), ids=WHOLE.keys())
def test_a_whole_answer(answer: Answer, engine: str, expected: list[tuple[str, int, str]]) -> None:
    """The engine by its fields, and the call divided by what it says."""
    assert answer.engine == engine
    assert answer.timing_faults == ()
    assert filled(answer, late=engine in ("vllm", "ollama")) == expected


# Of each: the last chunk, and the division of 1,500 ms whose first token came after 230.
STREAMS: dict[str, tuple[Answer, str, list[tuple[str, int, str]]]] = {
    "vllm": (
        read_last(VLLM),
        "vllm",
        [("queue", 70, "derived"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "groq": (
        read_last({"x_groq": {"id": "req_1", "usage": USAGE | GROQ}, "usage": None}),
        "groq",
        [
            ("network", 188, "derived"),
            ("queue", 30, "reported"),
            ("prefill", 12, "reported"),
            ("generation", 1270, "observed"),
        ],
    ),
    "dynamo": (
        read_last({"nvext": {"timing": DYNAMO}}),
        "dynamo",
        [("network", 20, "derived"), ("wait", 208, "reported"), ("generation", 1272, "derived")],
    ),
    "nim": (
        read_last({"stats": NIM}),
        "nim",
        [("queue", 40, "reported"), ("wait", 190, "observed"), ("generation", 1270, "derived")],
    ),
    "fireworks, shared": (
        read_last({"perf_metrics": FIREWORKS_SHARED}),
        "fireworks",
        [("network", 28, "derived"), ("wait", 202, "reported"), ("generation", 1270, "derived")],
    ),
    "sambanova": (
        read_last({"usage": USAGE | SAMBANOVA}),
        "sambanova",
        [("network", 30, "derived"), ("wait", 200, "reported"), ("generation", 1270, "derived")],
    ),
}


@pytest.mark.parametrize(("answer", "engine", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_a_stream(answer: Answer, engine: str, expected: list[tuple[str, int, str]]) -> None:
    """The same from its last chunk, around the first token the client saw."""
    assert answer.engine == engine
    assert filled(answer, late=engine in ("vllm", "nim"), first_token_ms=230) == expected
