"""What an engine says of a call reaches the page and Jaeger, also when it comes after the call."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.collecting import JSON, Collected, collecting
from support.collector_server import CollectorServer

from agentprof import attributes as a
from agentprof.summary import TaskSummary
from agentprof_collector.collect import collector as collecting_module
from agentprof_collector.phase_export import PhaseExporter

CLIENT, ENGINE = "c" * 32, "e" * 32
ROOT, CALL, SERVED = "1" * 16, "2" * 16, "3" * 16
T0 = 1_790_000_000_000_000_000
MS = 1_000_000
ID = "chatcmpl-97a83321a8b7d1a3"
PATIENCE_S = 30.0

# A call of 1,490 ms with its first token at 212 ms; vLLM's span says 200 ms to the first token, 150 of them prefill.
JOINED = [
    ("network", 12, "derived"),
    ("queue", 50, "derived"),
    ("prefill", 150, "joined"),
    ("generation", 1_278, "observed"),
]


def sent(trace: str, span: str, parent: str, ms: tuple[int, int], scope: str, **attributes: Any) -> bytes:
    """An export request with one span."""
    pairs = [
        {"key": key.replace("__", "."), "value": {_kind(value): value}} for key, value in attributes.items()
    ]
    made = {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "name": scope,
        "startTimeUnixNano": T0 + ms[0] * MS,
        "endTimeUnixNano": T0 + ms[1] * MS,
        "attributes": pairs,
    }
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [made]}]}]}
    ).encode()


def _kind(value: object) -> str:
    return "stringValue" if isinstance(value, str) else "doubleValue"


def the_client() -> list[bytes]:
    """A task with one call, as agentprof sends them."""
    named = {a.TASK_ID: "t"}
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        a.RESPONSE_ID: ID,
        a.FIRST_TOKEN: 0.212,
        **named,
    }
    return [
        sent(CLIENT, CALL, ROOT, (0, 1_490), "agentprof", **call),
        sent(CLIENT, ROOT, "", (0, 1_500), "agentprof", **named, **{a.TASK_NAME: "task"}),
    ]


def the_engine(trace: str, parent: str) -> bytes:
    """What vLLM says of it, by a clock of its own."""
    return sent(
        trace,
        SERVED,
        parent,
        (90_000, 91_478),
        "vllm.tracing.otel",
        gen_ai__request__id=ID,
        gen_ai__latency__time_in_queue=0.04,
        gen_ai__latency__time_in_model_prefill=0.15,
        gen_ai__latency__time_in_model_decode=1.27,
        gen_ai__latency__time_to_first_token=0.2,
        gen_ai__latency__e2e=1.478,
    )


def send(collected: Collected, *bodies: bytes) -> None:
    """Each in a request of its own."""
    for body in bodies:
        assert collected.send(body, content_type=JSON).status == 200


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def summary_of(collected: Collected) -> TaskSummary | None:
    """The task, if it is added up."""
    return collected.store.task("t")


def has_prefill(collected: Collected) -> bool:
    """The task is added up with what the engine says."""
    summary = summary_of(collected)
    return summary is not None and summary.timeline_ns["prefill"] > 0


def drawn(receiver: CollectorServer) -> list[tuple[str, float, str]]:
    """The phase spans that came: name, ms, source; all of them children of the call."""
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in receiver.spans} == {(CLIENT, CALL)}
    return [
        (
            span.name,
            (span.end_time_unix_nano - span.start_time_unix_nano) / MS,
            next(p.value.string_value for p in span.attributes if p.key == a.PHASE_SPAN_SOURCE),
        )
        for span in sorted(receiver.spans, key=lambda span: span.start_time_unix_nano)
    ]


WAYS = pytest.mark.parametrize(
    ("trace", "parent"), [(CLIENT, CALL), (ENGINE, "")], ids=["in its trace", "by its request id"]
)


@WAYS
def test_an_engine_that_speaks_after_the_call_is_drawn(trace: str, parent: str) -> None:
    """While the phases wait to be sent: only the joined ones are, and the page names their sources."""
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, *the_client())
            eventually(lambda: summary_of(collected) is not None)
            assert not has_prefill(collected)
            send(collected, the_engine(trace, parent))
            eventually(lambda: has_prefill(collected))
            page = collected.pages.ask("/tasks/t").text
            (run,) = [
                row
                for row in collected.pages.ask("/api/v1/tasks/t/waterfall").document["spans"]
                if row["kind"] == "model"
            ]
            summary = summary_of(collected)
        assert drawn(receiver) == JOINED
    assert summary is not None
    assert (summary.calls, summary.complete, summary.wall_ns) == (1, True, 1_500 * MS)
    assert summary.evidence_ns["prefill"] == {"joined": 150 * MS}
    assert [(p["name"], p["ns"] / MS, p["source"]) for p in run["phases"]] == JOINED
    for drawn_so in ("queue 50.0 ms (derived)", "prefill 150 ms (joined)", "generation 1.28 s (observed)"):
        assert drawn_so in page


@WAYS
def test_an_engine_that_was_there_first_is_drawn(trace: str, parent: str) -> None:
    """It waits in the store for its call."""
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, the_engine(trace, parent), *the_client())
            eventually(lambda: has_prefill(collected))
            collected.collector.up_to_date()
            assert collected.store.task_ids("") == ["t"]
        assert drawn(receiver) == JOINED


def test_an_engine_that_speaks_after_the_phases_were_sent_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call's phases are sent once more; the same phase keeps its span id."""
    monkeypatch.setattr(collecting_module, "PhaseExporter", functools.partial(PhaseExporter, settle_s=0.0))
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, *the_client())
            receiver.wait_for(lambda: len(receiver.spans) == 2)
            before = {span.name: span.span_id for span in receiver.spans}
            assert before.keys() == {"wait", "generation"}
            send(collected, the_engine(CLIENT, CALL))
            receiver.wait_for(lambda: len(receiver.spans) == 2 + len(JOINED))
        again = receiver.spans[2:]
        assert [span.name for span in again] == [name for name, _, _ in JOINED]
        assert {span.name: span.span_id for span in again}["generation"] == before["generation"]
