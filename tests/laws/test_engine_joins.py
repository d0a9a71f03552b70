"""Law: engines that speak in traces of their own, and calls that share ids or not, end in the same numbers.

However the spans arrive at a collector, one after the other and in whatever order, every task ends with the row that
all of them together give it.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentprof.model import Call, Evidence, Phase, Span, TaskMark
from agentprof.rollup import roll_up, tasks_in
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, open_store

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


@settings(max_examples=25)
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


def _chain(rnd: random.Random, length: int) -> list[Span]:
    """Traces each of which has a call and an engine for a call of one of the next: they hang together by ids alone."""
    spans = []
    for number in range(length):
        trace, at = f"{number:032x}", 1 + rnd.randrange(50) * 1_000_000
        for place in range(rnd.randrange(1, 3)):
            one = f"chatcmpl-{number + (0 if place == 0 else rnd.randrange(3)):08d}"
            own = Span(
                trace_id=trace, span_id=f"c{place}", parent_id=None, name="chat", title="chat", start_ns=at
            )
            own = msgspec.structs.replace(own, end_ns=at + 40_000_000)
            own = _as(own, "call", one, 0)
            if rnd.random() < 0.3:
                mark = TaskMark(id=f"t{number // 2}", starts=False)
                own = msgspec.structs.replace(own, task=mark)
            spans.append(own)
        for place in range(rnd.randrange(1, 3)):
            one = f"chatcmpl-{number + rnd.randrange(3):08d}"
            engine = Span(
                trace_id=trace, span_id=f"e{place}", parent_id=None, name="e", title="e", start_ns=at
            )
            engine = msgspec.structs.replace(engine, end_ns=at + 30_000_000)
            spans.append(_as(engine, "engine", one, 5_000_000))
    return spans


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_chain_of_ids_do_not_depend_on_where_it_is_taken_up(seed: int) -> None:
    """Of forty: added up trace after trace in any order, all at once, and again."""
    rnd = random.Random(seed)
    spans = _chain(rnd, 40)
    expected = {name: roll_up(name, own) for name, own in tasks_in(spans).items()}
    traces = sorted({span.trace_id for span in spans})
    with open_store(None) as store:
        for trace in rnd.sample(traces, len(traces)):
            own = [span for span in spans if span.trace_id == trace]
            store.add_spans(own, pairs_of(own))
            recompute(store, {trace})
        assert {summary.task_id: summary for summary in store.tasks()} == expected
        recompute(store, traces)
        assert {summary.task_id: summary for summary in store.tasks()} == expected


class Reads:
    """A store that counts the traces whose spans are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.traces = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        self.traces += len(trace_ids)
        return self._store.spans_of(trace_ids)


def test_what_one_trace_costs_does_not_grow_with_its_chain() -> None:
    """Of two thousand traces that hang together by ids, some hundred around it are read for one that arrives."""
    spans = []
    for number in range(2_000):
        for kind, one in (("call", number), ("engine", number + 1)):
            own = Span(
                trace_id=f"{number:032x}", span_id=kind, parent_id=None, name=kind, title=kind, start_ns=1
            )
            spans.append(_as(own, kind, f"chatcmpl-{one:08d}", 1))
    with open_store(None) as store:
        store.add_spans(spans, pairs_of(spans))
        reads = Reads(store)
        recompute(reads, {f"{1_000:032x}"})  # type: ignore[arg-type]
        assert 64 < reads.traces < 200


def test_a_task_that_is_declared_last() -> None:
    """It takes a call from the trace it is in, whose row has less then, and holds."""
    task = Span(trace_id="c1", span_id="s0", parent_id=None, name="t", title="t", start_ns=1, end_ns=9)
    task = _as(task, "task", "", 0)
    calls = [
        _as(
            msgspec.structs.replace(task, span_id=span_id, parent_id=parent, kind="other", task=None),
            "call",
            one,
            0,
        )
        for span_id, parent, one in (("s1", None, IDS[0]), ("s2", "s0", IDS[1]))
    ]
    with open_store(None) as store:
        for span in (*calls, task):
            store.add_spans([span], pairs_of([span]))
            recompute(store, {"c1"})
        found = {summary.task_id: summary.calls for summary in store.tasks()}
    assert found == {"trace:c1": 1, "t-c1": 1}


def test_who_is_above_whom_is_told_last() -> None:
    """A task that was said to be part of another is not where its first span says otherwise: the other holds."""
    part = Span(
        trace_id="c1", span_id="s1", parent_id=None, name="t", title="t", start_ns=1, end_ns=9, kind="other"
    )
    whole = msgspec.structs.replace(part, trace_id="c2", task=TaskMark(id="whole", starts=True))
    said = msgspec.structs.replace(part, task=TaskMark(id="part", starts=False, parent_id="whole"))
    first = msgspec.structs.replace(part, span_id="s2", kind="task", task=TaskMark(id="part", starts=True))
    spans = [whole, said, first]
    expected = {name: roll_up(name, own) for name, own in tasks_in(spans).items()}
    with open_store(None) as store:
        for span in spans:
            store.add_spans([span], pairs_of([span]))
            recompute(store, {span.trace_id})
        assert {summary.task_id: summary for summary in store.tasks()} == expected
