"""The phases of a call, drawn as spans of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from hypothesis import given
from support.generated import agent_loops, task_spans
from support.spans import TASK, TRACE, call, failed, observed, reported, task, usage

from agentprof.model import Span
from agentprof.rollup import plain_tree, roll_up, tasks_in
from agentprof.vocabularies import normalise
from agentprof_collector.phase_spans import CallPhases, as_request, phase_spans
from agentprof_collector.receive.otlp import decode_protobuf

CALL_ID = "c" * 16


def received(calls: Sequence[CallPhases]) -> list[Span]:
    """The phase spans as a collector understands them that gets them over the wire."""
    batch = decode_protobuf(as_request(calls))
    assert (batch.skipped, batch.lost) == (0, 0)
    return [normalise(span) for span in batch.spans]


def one_call(**fields: object) -> list[Span]:
    """A task of 200 ns with one call from 50 to 150."""
    return [
        task("a" * 16, 0, 200, service="app"),
        call(CALL_ID, 50, 150, "a" * 16, service="app", **fields),
    ]


def test_phases_are_children_of_their_call_in_order_and_fill_it() -> None:
    """Each carries its name and how it is known, and points to the call."""
    spans = one_call(
        first_token_ns=60,
        attempts=2,
        failed_attempts=(failed(10, 20, "429"),),
        phases={"queue": reported(5), "prefill": reported(20), "client": observed(10)},
    )
    (drawn,) = phase_spans(TASK, spans)
    assert drawn.key.hex() == TRACE + CALL_ID
    assert drawn.service == "app"
    assert [(s.name, s.start_time_unix_nano, s.end_time_unix_nano) for s in drawn.spans] == [
        ("failed_attempt", 50, 60),
        ("backoff", 60, 80),
        ("network", 80, 85),
        ("queue", 85, 90),
        ("prefill", 90, 110),
        ("generation", 110, 140),
        ("client", 140, 150),
    ]
    assert {s.parent_span_id.hex() for s in drawn.spans} == {CALL_ID}
    assert {s.trace_id.hex() for s in drawn.spans} == {TRACE}
    assert {a.key: a.value.string_value for a in drawn.spans[3].attributes} == {
        "agentprof.evidence": "phase",
        "agentprof.phase.name": "queue",
        "agentprof.phase.source": "reported",
    }
    assert drawn.spans[0].status.code == 2
    assert drawn.spans[1].status.code == 0
    assert drawn.spans[0].attributes[-1].value.string_value == "429"


def test_ids_stay_the_same_and_differ_between_phases_and_calls() -> None:
    """So that phases drawn twice, or by two collectors, are the same spans."""
    attempts = (failed(10, 5), failed(10, 5))
    spans = one_call(attempts=3, failed_attempts=attempts)
    spans.append(call("d" * 16, 150, 200, "a" * 16, attempts=3, failed_attempts=attempts))
    ids = [s.span_id for drawn in phase_spans(TASK, spans) for s in drawn.spans]
    assert len(set(ids)) == len(ids) == 10
    assert {len(span_id) for span_id in ids} == {8}
    assert ids == [s.span_id for drawn in phase_spans(TASK, reversed(spans)) for s in drawn.spans]


def test_reports_of_one_call_give_one_set_of_phases() -> None:
    """The phases are those of the call after joining, under the span that stands for it."""
    inner = call("e" * 16, 60, 140, "a" * 16, scope="agentprof", response_id="r", first_token_ns=30)
    outer = call("f" * 16, 58, 142, "a" * 16, scope="other", response_id="r", usage=usage(1, 1))
    drawn = phase_spans(TASK, [task("a" * 16, 0, 200), inner, outer])
    assert [(d.key.hex()[32:], [s.name for s in d.spans]) for d in drawn] == [
        ("e" * 16, ["wait", "generation"])
    ]


def test_calls_that_cannot_be_drawn_are_left_out() -> None:
    """One that has not ended, one of zero length, and such as have no ids of OTLP."""
    drawable = call("b" * 16, 10, 20, "a" * 16)
    odd = [
        call("c" * 16, 10, None, "a" * 16),
        call("d" * 16, 10, 10, "a" * 16),
        call("no hex", 10, 20),
        call("e" * 16, 10, 20, trace_id="T1"),
        call("f" * 16, 0, 20, "a" * 16),
        call("1" * 16, 10, 2**63, "a" * 16),
    ]
    drawn = phase_spans(TASK, [task("a" * 16, 0, 200), drawable, *odd])
    assert [d.key.hex()[32:] for d in drawn] == ["b" * 16]


def test_a_service_has_its_own_resource() -> None:
    """Jaeger shows the phases under the service of their call; one without a name stays so."""
    spans = [
        task("a" * 16, 0, 200, service="app"),
        call("b" * 16, 10, 20, "a" * 16, service="app"),
        call("c" * 16, 20, 30, "a" * 16, service="other"),
        call("d" * 16, 30, 40, "a" * 16),
    ]
    assert [(s.service, s.parent_id) for s in received(phase_spans(TASK, spans))] == [
        ("app", "b" * 16),
        ("other", "c" * 16),
        (None, "d" * 16),
    ]


def as_on_the_wire(spans: list[Span]) -> list[Span]:
    """The same spans with ids and times that the wire has: none is 0."""

    def hexed(span_id: str | None) -> str | None:
        return None if span_id is None else hashlib.sha256(span_id.encode()).hexdigest()[:16]

    return [
        msgspec.structs.replace(
            span,
            span_id=hexed(span.span_id),
            parent_id=hexed(span.parent_id),
            start_ns=span.start_ns + 1,
            end_ns=None if span.end_ns is None else span.end_ns + 1,
        )
        for span in spans
    ]


@given(task_spans() | agent_loops())
def test_phase_spans_that_come_back_change_nothing(generated: list[Span]) -> None:
    """A collector that receives them counts nothing twice, and draws the same again: a loop ends."""
    spans = as_on_the_wire(generated)
    for task_id, own in tasks_in(spans).items():
        drawn = phase_spans(task_id, own)
        back = received(drawn)
        assert {span.kind for span in back} <= {"evidence"}
        assert roll_up(task_id, [*own, *back]) == roll_up(task_id, own)
        assert phase_spans(task_id, [*own, *back]) == drawn
        ended = {
            node.span.span_id: node.end - node.start
            for node in plain_tree(task_id, own).of_kind("model")
            if node.span.end_ns is not None and node.end > node.start
        }
        assert ended == {
            d.key.hex()[32:]: sum(s.end_time_unix_nano - s.start_time_unix_nano for s in d.spans)
            for d in drawn
            if not d.spans[0].name.endswith("(inferred)")
        }
    everything = [
        back for task_id, own in tasks_in(spans).items() for back in received(phase_spans(task_id, own))
    ]
    assert tasks_in([*spans, *everything]).keys() == tasks_in(spans).keys()


def test_tools_that_nothing_marks_are_drawn_below_the_span_whose_time_they_took() -> None:
    """Under their names, with how they are known; a task without a span of its own has none."""
    calls = [
        call("b" * 16, 10, 20, "a" * 16, tool_calls=("look",), tool_call_ids=("1",)),
        call(CALL_ID, 50, 90, "a" * 16, tool_result_ids=("1",)),
    ]
    drawn = phase_spans(TASK, [task("a" * 16, 1, 100, service="app"), *calls])[-1]
    assert (drawn.key.hex(), drawn.service) == (TRACE + "a" * 16, "app")
    (made,) = drawn.spans
    assert (made.name, made.start_time_unix_nano, made.end_time_unix_nano) == ("look (inferred)", 20, 50)
    assert {a.key: a.value.string_value for a in made.attributes} == {
        "agentprof.evidence": "phase",
        "agentprof.phase.name": "tool",
        "agentprof.phase.source": "inferred",
    }
    assert len(phase_spans(TASK, [msgspec.structs.replace(one, parent_id=None) for one in calls])) == 2


def test_phase_spans_alone_make_no_task() -> None:
    """What is left of a trace whose calls are gone is nothing to count."""
    back = received(phase_spans(TASK, one_call()))
    assert len(back) == 1
    assert tasks_in(back) == {}
