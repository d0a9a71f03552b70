"""Spans of engines beside the call they served: which of them counts, what cannot be, and engines without a call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.engine_spans import (
    MS,
    claude,
    client,
    in_ms,
    inside,
    rows,
    sent,
    sglang,
    tensorrt_llm,
    the_call,
    vllm,
)

from agentprof import attributes as a
from agentprof.model import RawSpan, Span
from agentprof.rollup import plain_tree, tasks_in
from agentprof.vocabularies import normalise


def test_what_is_longer_than_the_call_is_not_believed() -> None:
    """5 ms are: clocks run differently. Beyond them the engine's times are named as a fault, and are no phases."""
    slow = {
        "gen_ai.latency.time_in_queue": 0.0,
        "gen_ai.latency.time_in_model_prefill": 0.2,
        "gen_ai.latency.time_to_first_token": 0.2,
    }
    within = vllm("call", **slow, **{"gen_ai.latency.time_in_model_decode": 1.294})
    assert the_call(client(1_490, None), within).phases_ns["prefill"] > 0
    beyond = vllm("call", **slow, **{"gen_ai.latency.time_in_model_decode": 1.296})
    row = the_call(client(1_490, None), beyond)
    assert in_ms(row) == {"model": (1_490, "observed")}
    assert faults(client(1_490, None), beyond) == ("vllm span: longer than the call",)


UNITS = [1e9, 1e6, 1e3, 1e-3, 1e-6, 1e-9]


@pytest.mark.parametrize("unit", UNITS, ids=[f"{unit:g}" for unit in UNITS])
def test_times_of_another_unit_are_no_phases(unit: float) -> None:
    """Longer than the call, or far too short for the engine's own span: neither is taken for time on the way."""
    names = [name for name in vllm("call").attributes if name.startswith("gen_ai.latency.")]
    changed = {name: vllm("call").attributes[name] * unit for name in names}
    found = vllm("call", **changed)
    assert in_ms(the_call(client(1_490, None), found)) == {"model": (1_490, "observed")}
    assert faults(client(1_490, None), found)
    assert in_ms(the_call(found)).keys() == {"model"}


def test_an_engine_that_outlives_its_client_still_tells_how_long_it_waited() -> None:
    """A stream its reader left: the engine decoded on, which is no fault."""
    left = client(300, 212, **{a.STREAM_END: "abandoned"})
    row = the_call(left, vllm("call"))
    assert in_ms(row)["queue"] == (50, "derived")
    assert in_ms(row)["prefill"] == (150, "joined")
    assert faults(left, vllm("call")) == ()


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"gen_ai.latency.time_in_queue": -0.5}, "gen_ai.latency.time_in_queue: negative"),
        (
            {"gen_ai.latency.time_to_first_token": 0.1},
            "gen_ai.latency.time_to_first_token: less than the prefill",
        ),
        ({"gen_ai.latency.time_in_model_decode": -1}, "gen_ai.latency.time_in_model_decode: negative"),
    ],
)
def test_times_that_cannot_be_are_no_phases_but_faults(attributes: dict[str, Any], fault: str) -> None:
    """Of the engine's span, and of the call it joins."""
    assert faults(client(), vllm("call", **attributes)) == (fault,)
    assert the_call(client(), vllm("call", **attributes)).phases_ns["prefill"] == 150 * MS


def faults(*spans: RawSpan) -> tuple[str, ...]:
    """What of the times of the only call cannot be."""
    read: list[Span] = [normalise(span) for span in spans]
    (node,) = plain_tree("t", read).of_kind("model")
    assert node.call is not None
    return node.call.timing_faults


def test_of_two_attempts_the_last_engine_span_counts() -> None:
    """Each attempt reached the engine; the first was given up by the client."""
    first = inside(
        "first",
        0,
        900,
        "call",
        kind=2,
        scope="vllm.tracing.otel",
        attributes={**dict(vllm("call").attributes), "gen_ai.latency.time_in_model_prefill": 0.01},
    )
    failed = {
        a.ATTEMPTS: 2,
        a.ATTEMPT_DURATION: [0.5],
        a.ATTEMPT_BACKOFF: [0.25],
        a.ATTEMPT_STATUS: ["timeout"],
    }
    row = the_call(client(750 + 1_490, 750 + 212, **failed), first, replaced_start(vllm("call"), 800))
    assert in_ms(row)["prefill"] == (150, "joined")
    assert in_ms(row)["queue"] == (50, "derived")
    assert in_ms(row)["failed_attempt"][0] == 500


@pytest.mark.parametrize(
    ("status", "attempt_s", "is_fault"),
    [("timeout", 0.5, False), ("cancelled", 0.5, False), ("503", 1.6, False), ("429", 0.02, True)],
)
@pytest.mark.parametrize("last_ms", [212, 0], ids=["then an answer", "no attempt succeeded"])
@pytest.mark.parametrize("engine", ["vllm", "claude"])
def test_an_engine_span_of_a_failed_attempt_is_no_fault(
    engine: str, last_ms: int, status: str, attempt_s: float, is_fault: bool
) -> None:
    """What the client left the engine may work on; what was refused at once no engine took that long."""
    failed = {
        a.ATTEMPTS: 2 if last_ms else 1,
        a.ATTEMPT_DURATION: [attempt_s],
        a.ATTEMPT_BACKOFF: [0.0],
        a.ATTEMPT_STATUS: [status],
    }
    call = client(1_000 * attempt_s + last_ms, None, **failed)
    span = vllm("call") if engine == "vllm" else claude("anthropic.messages.create", 0, 1_450, "call")
    assert (faults(call, span) != ()) is is_fault
    assert {"failed_attempt", "model"} >= in_ms(the_call(call, span)).keys()


def replaced_start(span: RawSpan, ms: float) -> RawSpan:
    """The span, later."""
    return msgspec.structs.replace(
        span, start_ns=span.start_ns + round(ms * MS), end_ns=(span.end_ns or 0) + round(ms * MS)
    )


@pytest.mark.parametrize("engine", [vllm, tensorrt_llm])
def test_an_engine_with_no_call_above_is_the_only_witness(engine: Any) -> None:
    """A call with the times it knows."""
    row = the_call(engine(None))
    assert row.phases_ns["prefill"] == 150 * MS
    assert row.tokens["input"] == 300


def test_sglang_with_no_call_above_is_the_only_witness() -> None:
    """Its stages are the phases."""
    row = the_call(*sglang(None))
    assert [row.phases_ns[name] / MS for name in ("queue", "prefill", "generation")] == [50, 150, 1_270]


def test_stages_alone_are_no_task() -> None:
    """Nothing says that a model was called."""
    assert tasks_in([normalise(span) for span in sglang(None)[1:]]) == {}


def test_what_only_names_a_model_of_an_engine_is_no_span_of_it() -> None:
    """A service that notes which model it asked for is the root of its task."""
    service = sent("POST /transcribe", 0, 2_000, None, kind=2, attributes={"triton.model_name": "asr"})
    (row,) = rows(service, client(parent="POST /transcribe"))
    assert normalise(service).engine is None
    assert row.path[0] == "POST /transcribe"
