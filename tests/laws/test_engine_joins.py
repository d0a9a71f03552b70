"""Law: engines that speak in traces of their own, and calls that share ids or not, end in the same numbers.

However the spans arrive at a collector, one after the other and in whatever order, every task ends with the row that
all of them together give it.
"""

from __future__ import annotations

import random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentprof.model import Call, Evidence, Phase, Span, TaskMark
from agentprof.rollup import roll_up, tasks_in
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import open_store

TRACES = ("c1", "c2", "e1", "e2", "e3")
IDS = ("chatcmpl-a0000000", "chatcmpl-b0000000", "a0000000")

times = st.integers(1, 50).map(lambda ms: ms * 1_000_000)


@st.composite
def some_spans(draw: st.DrawFn) -> list[Span]:
    """Tasks, calls, engines with their stages and what carries requests, in a few traces."""
    spans = []
    for number in range(draw(st.integers(1, 10))):
        start = draw(times)
        kind = draw(st.sampled_from(("task", "call", "call", "engine", "engine", "stage", "carrier")))
        parent = draw(st.one_of(st.none(), st.integers(0, 10).map(lambda at: f"s{at}")))
        found = Span(
            trace_id=draw(st.sampled_from(TRACES)),
            span_id=f"s{number}",
            parent_id=parent,
            name=kind,
            title=kind,
            start_ns=start,
            end_ns=start + draw(times),
        )
        spans.append(_as(found, kind, draw(st.sampled_from(IDS)), draw(times)))
    return spans


def _as(span: Span, kind: str, one: str, ns: int) -> Span:
    """The span, as something that has the id, or a time, or neither."""
    match kind:
        case "task":
            mark = TaskMark(id=f"t-{span.trace_id}", starts=True, name="task")
            return msgspec.structs.replace(span, kind="task", task=mark)
        case "call":
            return msgspec.structs.replace(span, kind="model", call=Call(model="m", response_id=one))
        case "engine":
            known = Call(request_id=one, phases={"prefill": Phase(ns=ns, source="joined")})
            return msgspec.structs.replace(span, kind="model", call=known, engine="vllm", server_side=True)
        case "stage":
            evidence = Evidence(role="engine", stage="queue")
            return msgspec.structs.replace(span, kind="evidence", evidence=evidence, engine="sglang")
        case _:
            return msgspec.structs.replace(span, server_side=True)


@given(some_spans(), st.integers(0, 1_000))
def test_tasks_do_not_depend_on_the_order_of_spans(spans: list[Span], seed: int) -> None:
    """And no span is in two tasks, and the parts of each add up to its wall."""
    expected = {name: roll_up(name, own) for name, own in tasks_in(spans).items()}
    shuffled = random.Random(seed).sample(spans, len(spans))
    again = tasks_in(shuffled + shuffled[:3])
    assert {name: roll_up(name, own) for name, own in again.items()} == expected
    keys = [span.key for own in again.values() for span in own]
    assert len(keys) == len(set(keys))
    for summary in expected.values():
        assert sum(summary.timeline_ns.values()) == summary.wall_ns


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(some_spans(), st.integers(0, 1_000))
def test_rows_do_not_depend_on_the_order_of_arrival(spans: list[Span], seed: int) -> None:
    """Added up after each of them."""
    expected = {name: roll_up(name, own) for name, own in tasks_in(spans).items()}
    arriving = random.Random(seed).sample(spans, len(spans))
    with open_store(None) as store:
        for span in arriving:
            store.add_spans([span], pairs_of([span]))
            recompute(store, {span.trace_id})
        assert {summary.task_id: summary for summary in store.tasks()} == expected
