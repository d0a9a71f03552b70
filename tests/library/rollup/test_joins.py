"""Spans of engines in traces of their own, joined to the call that has their id."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from support.spans import call, span, task

from agentprof.model import Call, Evidence, Phase, Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.rollup.joins import REPORTS

CLIENT, ENGINE, OTHER = "c" * 32, "e" * 32, "f" * 32
ID = "chatcmpl-97a83321a8b7d1a3"


def served(request_id: str = ID, trace: str = ENGINE, name: str = "llm_request", **fields: Any) -> Span:
    """An engine's request of 90 ns by a clock of its own, whose trace is its own."""
    phases = {
        "queue": Phase(ns=30, source="joined"),
        "prefill": Phase(ns=20, source="joined"),
        "generation": Phase(ns=40, source="joined"),
    }
    known = Call(model=None, request_id=request_id, phases=phases, engine="vllm")
    fields = {"parent": None, "start": 5_000, **fields}
    return Span(
        trace_id=trace,
        span_id=name,
        parent_id=fields["parent"],
        name=name,
        title=name,
        start_ns=fields["start"],
        end_ns=fields["start"] + 90,
        kind="model",
        call=known,
        engine="vllm",
        server_side=True,
    )


def asked(
    name: str = "a", start: int = 100, trace: str = CLIENT, parent: str | None = "root", **more: Any
) -> Span:
    """A call of 100 ns; by its response id unless told otherwise."""
    return call(name, start, start + 100, parent, trace_id=trace, **{"response_id": ID, **more})


def root(trace: str = CLIENT) -> Span:
    """The span of the task `t`."""
    return task("root", 0, 1_000, trace_id=trace)


def only(spans: list[Span]) -> tuple[str, list[CallRow]]:
    """The only task and its calls, whatever the order of the spans."""
    ((task_id, own),) = tasks_in(spans).items()
    for seed in range(3):
        other = random.Random(seed).sample(spans, len(spans))
        assert roll_up(task_id, tasks_in(other)[task_id]) == roll_up(task_id, own)
    summary = roll_up(task_id, own)
    assert summary.complete
    assert sum(summary.timeline_ns.values()) == summary.wall_ns
    return task_id, call_rows(task_id, own)


JOINED = {"network": 10, "queue": 30, "prefill": 20, "generation": 40}


@pytest.mark.parametrize(
    ("ids", "request_id"),
    [
        ({"response_id": ID}, ID),
        ({"response_id": "other", "request_id": "0f3a9c1d-77"}, "chatcmpl-0f3a9c1d-77"),
        ({"response_id": "cmpl-0f3a9c1d"}, "cmpl-0f3a9c1d-0"),
        ({"response_id": "0f3a9c1d" * 4}, "0f3a9c1d" * 4),
    ],
    ids=["response id", "X-Request-Id", "prompt of a completion", "rid"],
)
def test_a_span_in_another_trace_is_joined_by_its_id(ids: dict[str, str], request_id: str) -> None:
    """It is no task and no call, adds no wall, and fills the call."""
    task_id, (row,) = only([root(), asked(**ids), served(request_id)])
    assert task_id == "t"
    assert row.phases_ns == JOINED
    assert row.span_id == "a"
    spans = tasks_in([root(), asked(**ids), served(request_id)])["t"]
    summary = roll_up("t", spans)
    assert (summary.calls, summary.wall_ns, summary.trace_ids) == (1, 1_000, [CLIENT, ENGINE])
    assert "missing_parent" not in {warning.code for warning in summary.warnings}


def test_a_call_in_no_declared_task_is_joined_too() -> None:
    """The implicit task is that of the client's trace."""
    task_id, (row,) = only([asked(parent=None), served()])
    assert task_id == f"trace:{CLIENT}"
    assert row.phases_ns == JOINED


def test_each_of_several_calls_gets_its_own() -> None:
    """Of one task, and of two."""
    spans = [
        root(),
        asked("a", response_id="chatcmpl-a0000000"),
        asked("b", 300, response_id="chatcmpl-b0000000"),
        served("chatcmpl-a0000000", "1" * 32),
        asked("d", 300, OTHER, None, response_id="chatcmpl-d0000000"),
        served("chatcmpl-d0000000", "2" * 32),
    ]
    tasks = tasks_in(spans)
    assert set(tasks) == {"t", f"trace:{OTHER}"}
    assert [row.phases_ns.get("prefill") for row in call_rows("t", tasks["t"])] == [20, None]
    assert [row.phases_ns for row in call_rows("x", tasks[f"trace:{OTHER}"])] == [JOINED]


def test_what_is_below_an_engines_request_goes_with_it() -> None:
    """Its stages and threads."""
    stage = span("slice", 5_000, 5_010, "llm_request", trace_id=ENGINE)
    evidence = Span(
        trace_id=ENGINE,
        span_id="e",
        parent_id="slice",
        start_ns=5_000,
        end_ns=5_010,
        kind="evidence",
        evidence=Evidence(role="engine"),
        engine="vllm",
    )
    task_id, (row,) = only([root(), asked(), served(), stage, evidence])
    assert (task_id, row.phases_ns) == ("t", JOINED)


def test_requests_in_one_trace_go_where_each_belongs() -> None:
    """Each is the beginning of what was done for it."""
    spans = [
        root(),
        asked(response_id="chatcmpl-a0000000"),
        asked("d", 300, OTHER, None, response_id="chatcmpl-d0000000"),
        served("chatcmpl-a0000000", name="first"),
        served("chatcmpl-d0000000", name="second", start=7_000),
    ]
    tasks = tasks_in(spans)
    assert {name: len(own) for name, own in tasks.items()} == {"t": 3, f"trace:{OTHER}": 2}
    for name, own in tasks.items():
        (row,) = call_rows(name, own)
        assert row.phases_ns == JOINED
        assert roll_up(name, own).complete


def test_an_engine_whose_trace_somebody_began_stays_there() -> None:
    """Whoever sent the request that it served is in that trace, or will come."""
    tasks = tasks_in([root(), asked(), served(parent="gateway")])
    assert set(tasks) == {"t", f"trace:{ENGINE}"}


def test_reports_of_one_call_are_one_call() -> None:
    """Two instrumentations that saw it, one inside the other."""
    spans = [root(), asked("outer", scope="one"), asked("inner", parent="outer", scope="two"), served()]
    _, (row,) = only(spans)
    assert row.phases_ns == JOINED


@pytest.mark.parametrize(
    "calls",
    [
        [asked("a"), asked("b", 10_000_000)],
        [asked("a"), asked("b", 100, OTHER, None)],
        [asked("a", response_id="chatcmpl-x0000000")],
        [asked("a", server="api.openai.com:443")],
    ],
    ids=["two calls", "two traces", "another id", "a host that runs no engine of the user"],
)
def test_what_has_no_one_call_stays_what_it_was(calls: list[Span]) -> None:
    """The only witness of a call that nobody else reported."""
    tasks = tasks_in([root(), *calls, served()])
    assert f"trace:{ENGINE}" in tasks
    assert all("prefill" not in row.phases_ns for row in call_rows("t", tasks["t"]))


def test_an_id_that_many_calls_have_joins_none_of_them() -> None:
    """As where a server gives every answer the same; it costs no more than to look."""
    calls = [asked(f"a{number}", parent=None) for number in range(REPORTS + 1)]
    tasks = tasks_in([*calls, *(served(trace=f"{number:032x}") for number in range(1, 200))])
    assert len(tasks) == 200
    assert len(tasks_in([*calls[:-1], served()])) == 1


def test_an_engine_beside_its_call_in_one_trace_is_joined() -> None:
    """As where the request carried the context of the agent around the call."""
    _, (row,) = only([root(), asked(), served(trace=CLIENT, parent="root")])
    assert row.phases_ns == JOINED


def test_an_engine_above_the_call_with_its_id_is_not_hung_below_it() -> None:
    """That would be a circle."""
    spans = [served(name="e"), asked(trace=ENGINE, parent="e")]
    ((task_id, own),) = tasks_in(spans).items()
    summary = roll_up(task_id, own)
    assert summary.calls == 1
    assert sum(summary.timeline_ns.values()) == summary.wall_ns


def test_what_is_far_down_is_not_joined_by_id() -> None:
    """A chain of any length costs nothing."""
    chain = [span(f"s{at}", 1, 9_000, f"s{at - 1}" if at else "root", trace_id=CLIENT) for at in range(5_000)]
    engines = [served(trace=CLIENT, name=f"e{number}", parent="s4999") for number in range(300)]
    tasks = tasks_in([root(), asked(), *chain, *engines])
    assert roll_up("t", tasks["t"]).calls == 301


def test_a_short_id_joins_nothing() -> None:
    """A counter of requests is no name."""
    tasks = tasks_in([root(), asked(response_id="17"), served("17")])
    assert set(tasks) == {"t", f"trace:{ENGINE}"}


def test_an_engine_in_a_trace_of_a_client_is_joined_there() -> None:
    """Its place says what it belongs to, whoever else has its id."""
    spans = [
        root(),
        asked("a", response_id="other"),
        served(trace=CLIENT, parent="a"),
        asked("d", 0, OTHER, None),
    ]
    tasks = tasks_in(spans)
    (row,) = call_rows("t", tasks["t"])
    assert row.phases_ns == JOINED
    assert [row.phases_ns for row in call_rows("x", tasks[f"trace:{OTHER}"])] == [{"model": 100}]


def test_a_call_that_never_ended_does_not_end_by_the_clock_of_its_engine() -> None:
    """Only lengths of an engine are taken."""
    spans = [root(), asked(), served(trace=CLIENT, parent="a")]
    open_call = msgspec.structs.replace(spans[1], end_ns=None)
    summary = roll_up("t", [spans[0], open_call, spans[2]])
    assert summary.overlap_ns["model"] == 0
    assert "no_end" in {warning.code for warning in summary.warnings}
