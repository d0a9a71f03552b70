"""What every store does for calls and spans of engines that find each other by ids: part of the suite of stores."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from agentprof.model import Call, Phase, Span, TaskMark
from agentprof.summary import TaskSummary
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store
from agentprof_collector.stores.ids import FIRST_TRACES

OpenStore = Callable[[], AbstractContextManager[Store]]

ID = "chatcmpl-97a83321a8b7d1a3"


def the_task(trace: str = "t1", task: str = "a") -> Span:
    """The span of a task of 900 ns."""
    mark = TaskMark(id=task, starts=True, name="task")
    return Span(trace_id=trace, span_id="root", start_ns=100, end_ns=1_000, kind="task", task=mark)


def the_call(trace: str = "t1", response_id: str | None = ID, parent: str | None = "root") -> Span:
    """A call of 100 ns."""
    asked = Call(model="m", response_id=response_id)
    return Span(
        trace_id=trace,
        span_id="call",
        parent_id=parent,
        name="chat",
        start_ns=200,
        end_ns=300,
        kind="model",
        call=asked,
    )


def served(trace: str = "e1", request_id: str = ID) -> Span:
    """What an engine says of it in a trace of its own."""
    phases = {"queue": Phase(ns=30, source="joined"), "prefill": Phase(ns=50, source="joined")}
    return Span(
        trace_id=trace,
        span_id="served",
        name="llm_request",
        start_ns=7_000,
        end_ns=7_090,
        kind="model",
        call=Call(request_id=request_id, phases=phases),
        engine="vllm",
        server_side=True,
    )


def arrives(store: Store, *spans: Span) -> None:
    """Spans are stored and added up, as a collector does it."""
    store.add_spans(spans, pairs_of(spans))
    recompute(store, {span.trace_id for span in spans})


def only_task(store: Store) -> TaskSummary:
    """The only task of a store."""
    (summary,) = store.tasks()
    return summary


class StoreJoins:
    """Tests of one store; a subclass gives the fixtures `store` and `open_store`."""

    def test_traces_are_found_by_the_ids_in_them(self, store: Store) -> None:
        """Of calls and of engines apart; a call of a host that runs no engine of the user has none."""
        hosted = msgspec.structs.replace(the_call("t2"), call=Call(response_id=ID, server="api.openai.com"))
        spans = [the_task(), the_call(), hosted, served(), served("e2", "cmpl-0f3a9c1d-0")]
        assert store.traces_by_id([ID], [ID]) == set()
        store.add_spans(spans, [])
        store.add_spans(spans, [])
        assert store.traces_by_id([ID], []) == {"t1"}
        assert store.traces_by_id([], [ID]) == {"e1"}
        assert store.traces_by_id([ID, "x"], [ID, "0f3a9c1d", "x"]) == {"t1", "e1", "e2"}
        assert store.traces_by_id([], []) == set()

    def test_of_an_id_of_many_traces_the_first_are_found(self, store: Store) -> None:
        """As where a server gives every answer the same; those of other ids are found beside them."""
        names = [f"t{number:02}" for number in range(3 * FIRST_TRACES)]
        for _ in range(2):
            store.add_spans([the_call(name) for name in reversed(names)], [])
        store.add_spans([the_call("other", "chatcmpl-other")], [])
        assert store.traces_by_id([ID, "chatcmpl-other"], []) == {"other", *names[:FIRST_TRACES]}

    def test_an_id_that_many_requests_have_joins_none_of_them(self, store: Store) -> None:
        """Whichever comes when: each task stays what it was, and the engine's spans stay alone."""
        for number in range(2 * FIRST_TRACES):
            arrives(store, the_task(f"t{number:02}", f"a{number}"), the_call(f"t{number:02}"))
            arrives(store, served(f"e{number:02}"))
        assert len(store.tasks()) == 4 * FIRST_TRACES
        for number in range(2 * FIRST_TRACES):
            found = store.task(f"a{number}")
            assert found is not None
            assert found.trace_ids == [f"t{number:02}"]

    def test_a_second_call_with_the_id_parts_what_was_joined(self, store: Store) -> None:
        """Nothing says any more which of them was served; what comes later of the first still counts."""
        arrives(store, the_task(), the_call(), served())
        assert only_task(store).timeline_ns["prefill"] == 50
        arrives(store, the_task("t2", "b"), the_call("t2"))
        assert {summary.task_id for summary in store.tasks()} == {"a", "b", "trace:e1"}
        later = msgspec.structs.replace(the_call(response_id=None), span_id="later")
        arrives(store, later)
        first = store.task("a")
        assert first is not None
        assert (first.calls, first.timeline_ns["prefill"]) == (2, 0)

    def test_ids_go_with_their_traces(self, store: Store) -> None:
        """What is forgotten is not found any more."""
        store.add_spans([the_call(), served()], [], arrived_ns=5)
        assert store.forget(8_000) == 2
        assert store.traces_by_id([ID], [ID]) == set()

    def test_an_engine_is_joined_to_its_call_in_any_order_of_arrival(self, open_store: OpenStore) -> None:
        """After opening again in between: one task, filled by the engine, which is none of its own."""
        expected: TaskSummary | None = None
        for at, order in enumerate(itertools.permutations([the_task(), the_call(), served()])):
            apart = f"{ID}-{at}-x"
            with open_store() as store:
                before = len(store.tasks())
            for span in order:
                with open_store() as store:
                    arrives(store, _of_its_own(span, str(at), apart))
            with open_store() as store:
                tasks = {summary.task_id: summary for summary in store.tasks()}
                assert len(tasks) == before + 1, [(one.name, one.task_id) for one in tasks.values()]
                found = tasks[f"a{at}"]
            assert (found.calls, found.wall_ns, found.complete) == (1, 900, True)
            assert found.trace_ids == sorted([f"t1{at}", f"e1{at}"])
            assert {part: ns for part, ns in found.timeline_ns.items() if ns} == {
                "queue": 30,
                "prefill": 50,
                "model": 20,
                "other": 800,
            }
            plain = msgspec.structs.replace(found, task_id="", trace_ids=[])
            expected = expected or plain
            assert plain == expected

    def test_an_engine_without_a_call_stays_alone(self, store: Store) -> None:
        """It is the only witness of its call, until the call comes."""
        arrives(store, served())
        assert only_task(store).task_id == "trace:e1"
        arrives(store, the_call(parent=None))
        assert only_task(store).task_id == "trace:t1"
        assert store.task("trace:e1") is None


def _of_its_own(span: Span, suffix: str, one: str) -> Span:
    """The span in a trace, a task and with an id of its own."""
    call, mark = span.call, span.task
    if call is not None and call.request_id:
        call = msgspec.structs.replace(call, request_id=one)
    elif call is not None:
        call = msgspec.structs.replace(call, response_id=one)
    if mark is not None:
        mark = msgspec.structs.replace(mark, id=mark.id + suffix)
    return msgspec.structs.replace(span, trace_id=span.trace_id + suffix, call=call, task=mark)
