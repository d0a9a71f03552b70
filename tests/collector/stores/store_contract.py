"""The suite every store runs: the contract of `Store`, as tests over a store that can be closed and opened."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from store_energy import StoreEnergy
from store_joins import StoreJoins
from store_questions import StoreQuestions

from agentprof.model import Call, Facts, OutcomeFact, Span, TaskMark, Usage
from agentprof.rollup import roll_up, tasks_in
from agentprof_collector.stores import Store, TaskFilter, TaskRow

OpenStore = Callable[[], AbstractContextManager[Store]]


def root(trace: str, task: str, *, start_ns: int = 100, parent_task: str | None = None) -> Span:
    """The span that starts a task."""
    mark = TaskMark(id=task, starts=True, name=f"name of {task}", parent_id=parent_task, labels={"k": "v"})
    return Span(
        trace_id=trace,
        span_id=f"root-{task}",
        name="task",
        kind="task",
        start_ns=start_ns,
        end_ns=900,
        task=mark,
    )


def call(trace: str, span: str, parent: str | None) -> Span:
    """A model call."""
    asked = Call(model="m", usage=Usage(input=10, output=5))
    return Span(
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        name="chat",
        kind="model",
        start_ns=200,
        end_ns=300,
        call=asked,
    )


def row(
    task: str, spans: list[Span], facts: Facts | None = None, *, spans_count: int | None = None
) -> TaskRow:
    """The row of a task added up from spans."""
    facts = facts or Facts()
    summary = roll_up(task, tasks_in(spans)[task], facts)
    count = len({span.key for span in spans}) if spans_count is None else spans_count
    return TaskRow(summary=summary, spans=count, facts=len(facts.outcomes))


class StoreContract(StoreQuestions, StoreJoins, StoreEnergy):
    """Tests of one store; a subclass gives the fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Opens the same store again and again; the one opened before is closed by then."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[Store]:
        with open_store() as store:
            yield store

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        """Every question to a new store has an empty answer."""
        assert store.spans_of(["t"]) == []
        assert store.traces_of(["a"]) == set()
        assert store.outcomes_of(["a"]) == []
        assert store.tasks() == []
        assert store.task("a") is None
        assert store.task_ids("") == []

    def test_spans_come_back_as_they_went_in(self, store: Store) -> None:
        """Every field survives, and only the traces asked for are read."""
        ours, other = [root("t1", "a"), call("t1", "c", "root-a")], [call("t2", "c", None)]
        store.add_spans(ours + other, [("a", "t1")])
        assert sorted(store.spans_of({"t1"}), key=lambda span: span.span_id) == sorted(
            ours, key=lambda span: span.span_id
        )
        assert store.spans_of({"t2", "none"}) == other
        assert store.spans_of([]) == []

    def test_what_was_written_is_there_after_opening_again(self, open_store: OpenStore) -> None:
        """Spans, pairs, outcomes and rows last beyond the connection."""
        spans = [root("t1", "a")]
        fact = OutcomeFact(task_id="a", outcome="success", score=0.5, recorded_ns=7)
        with open_store() as store:
            store.add_spans(spans, [("a", "t1")])
            store.add_outcomes([fact])
            store.put_tasks([row("a", spans, Facts(outcomes=(fact,)))], {"t1"})
        with open_store() as store:
            assert store.spans_of(["t1"]) == spans
            assert store.traces_of(["a"]) == {"t1"}
            assert store.outcomes_of(["a"]) == [fact]
            summary = store.task("a")
            assert summary is not None
            assert (summary.outcome, summary.score, summary.labels) == ("success", 0.5, {"k": "v"})

    def test_traces_that_tasks_tie_together(self, store: Store) -> None:
        """However far away they are, and in a circle; no others."""
        chain = [(task, f"t{at}") for at in range(70) for task in (f"a{at}", f"a{at + 1}")]
        store.add_spans([], [*chain, ("a70", "t0"), ("other", "u")])
        whole = {f"t{at}" for at in range(70)}
        assert store.traces_tied(["t69"]) == whole
        assert store.traces_tied(["t3", "u"]) == whole | {"u"}
        assert store.traces_tied(["unknown"]) == {"unknown"}
        assert store.traces_tied([]) == set()

    @pytest.mark.parametrize(
        "text",
        [
            "'",
            '"; DROP TABLE tasks; --',
            "\\",
            "\\'",
            "{x:String}",
            "$1 %s ?",
            "\0",
            "a\0b",
            "\n\t",
            "é😀",
            " ",
            "x" * 4_000,
        ],
    )
    def test_ids_of_any_text(self, store: Store, text: str) -> None:
        """What is found by an id is what has it, whatever stands in it."""
        task, trace = f"task {text}", f"trace {text}"
        fact = OutcomeFact(task_id=task, outcome="failure", recorded_ns=1)
        spans, other = [root(trace, task)], [root("t", "task ")]
        store.add_spans([*spans, *other], [(task, trace), ("task ", "t")])
        store.add_outcomes([fact])
        facts = Facts(outcomes=(fact,))
        store.put_tasks([row(task, spans, facts), row("task ", other)], {trace, "t"})
        assert store.spans_of([trace]) == spans
        assert store.traces_of([task]) == store.traces_tied([trace]) == {trace}
        assert store.outcomes_of([task]) == [fact]
        found = store.task(task)
        assert found is not None
        assert (found.task_id, found.outcome) == (task, "failure")
        assert task in store.task_ids(task)
        (alone,) = store.tasks(TaskFilter(name=found.name))
        assert alone == found
        assert store.tasks(TaskFilter(search=text)) == [s for s in store.tasks() if text in s.task_id]

    def test_a_task_in_several_traces(self, store: Store) -> None:
        """Pairs are kept once however often they are given."""
        for _ in range(2):
            store.add_spans([root("t1", "a")], [("a", "t1"), ("a", "t2"), ("b", "t1")])
        store.add_spans([], [("a", "t3")])
        assert store.traces_of(["a"]) == {"t1", "t2", "t3"}
        assert store.traces_of(["b"]) == {"t1"}
        assert store.traces_of(["a", "b"]) == {"t1", "t2", "t3"}

    def test_delivery_in_any_order_and_twice_gives_the_same_summary(self, open_store: OpenStore) -> None:
        """However the spans are cut into calls, repeated and ordered, they add up to the same."""
        spans = [root("t1", "a"), call("t1", "c1", "root-a"), call("t1", "c2", "root-a")]
        expected = roll_up("a", tasks_in(spans)["a"])
        for at, order in enumerate(itertools.permutations(spans)):
            trace = f"t{at + 10}"
            renamed = [_in_trace(span, trace) for span in order]
            with open_store() as store:
                store.add_spans(renamed[:1], [("a", trace)])
                store.add_spans(renamed, [("a", trace)])
                read = store.spans_of([trace])
            back = [_in_trace(span, "t1") for span in read]
            assert roll_up("a", tasks_in(back)["a"]) == expected

    def test_what_arrived_since(self, store: Store) -> None:
        """Traces by when their spans arrived, and by the outcomes of their tasks; later than, not at."""
        store.add_spans([root("t1", "a")], [("a", "t1")], arrived_ns=10)
        store.add_spans([root("t2", "b"), call("t3", "c", None)], [("b", "t2"), ("b", "t4")], arrived_ns=20)
        store.add_spans([call("t1", "c", "root-a")], [("a", "t1")], arrived_ns=30)
        assert store.arrived_since(0) == {"t1", "t2", "t3"}
        assert store.arrived_since(10) == {"t1", "t2", "t3"}
        assert store.arrived_since(20) == {"t1"}
        assert store.arrived_since(30) == set()
        store.add_outcomes([OutcomeFact(task_id="b", outcome="success", recorded_ns=1)], arrived_ns=40)
        store.add_outcomes([OutcomeFact(task_id="trace:t3", outcome="success", recorded_ns=1)], arrived_ns=50)
        assert store.arrived_since(30) == {"t2", "t3", "t4"}
        assert store.arrived_since(40) == {"t3"}

    def test_spans_without_a_time_arrive_now(self, store: Store) -> None:
        """By the clock of this machine."""
        before = time.time_ns()
        store.add_spans([root("t1", "a")], [("a", "t1")])
        assert store.arrived_since(before - 1) == {"t1"}
        assert store.arrived_since(time.time_ns()) == set()

    def test_how_far_tasks_are_added_up(self, open_store: OpenStore) -> None:
        """Nothing at first; then what was said last, also after opening again."""
        with open_store() as store:
            assert store.added_up_to() == 0
            store.set_added_up_to(17)
            store.set_added_up_to(1_790_000_000_000_000_001)
        with open_store() as store:
            assert store.added_up_to() == 1_790_000_000_000_000_001

    def test_what_is_old_is_forgotten(self, open_store: OpenStore) -> None:
        """With everything of it, for good; what is newer stays as it was."""
        old, new = [root("t1", "a"), call("t1", "c", "root-a")], [root("t2", "b")]
        stray = [call("t3", "c", None)]
        with open_store() as store:
            store.add_spans(old, [("a", "t1")], arrived_ns=901)
            store.add_spans(stray, [], arrived_ns=901)
            store.add_outcomes([OutcomeFact(task_id="a", outcome="success", recorded_ns=1)], arrived_ns=902)
            store.add_outcomes([OutcomeFact(task_id="none", outcome="success", recorded_ns=1)], arrived_ns=1)
            store.add_spans(new, [("b", "t2")], arrived_ns=950)
            store.add_outcomes([OutcomeFact(task_id="b", outcome="success", recorded_ns=1)], arrived_ns=1)
            store.put_tasks([row("a", old), row("b", new), row("trace:t3", stray)], {"t1", "t2", "t3"})
            assert store.forget(902) == 1
            assert store.forget(950) == 2
            assert store.forget(950) == 0
        with open_store() as store:
            assert store.spans_of(["t1", "t3"]) == []
            assert (store.traces_of(["a"]), store.outcomes_of(["a", "none"])) == (set(), [])
            assert (store.spans_of(["t2"]), store.traces_of(["b"])) == (new, {"t2"})
            assert [fact.task_id for fact in store.outcomes_of(["b"])] == ["b"]
            assert store.task_ids("") == ["b"]
            assert store.arrived_since(0) == {"t2"}

    def test_a_task_that_ended_lately_is_not_forgotten(self, store: Store) -> None:
        """Also if all of it arrived long ago, by another clock."""
        spans = [root("t1", "a")]
        store.add_spans(spans, [("a", "t1")], arrived_ns=5)
        store.put_tasks([row("a", spans)], {"t1"})
        assert store.forget(900) == 0
        assert store.forget(901) == 1

    def test_what_is_tied_to_something_newer_is_not_forgotten(self, store: Store) -> None:
        """Tasks over several traces, and tasks above tasks, go together or not at all."""
        first = [root("t1", "a", parent_task="b")]
        second = [_in_trace(call("t2", "c", None), "t2")]
        third = [root("t3", "b")]
        store.add_spans(first, [("a", "t1"), ("b", "t1")], arrived_ns=10)
        store.add_spans(second, [("a", "t2")], arrived_ns=10)
        store.add_spans(third, [("b", "t3")], arrived_ns=5_000)
        store.put_tasks([row("a", [root("t1", "a"), root("t2", "a")])], {"t1", "t2", "t3"})
        assert store.forget(4_000) == 0
        assert store.forget(5_001) == 3

    def test_outcomes_are_all_kept(self, store: Store) -> None:
        """Oldest first; repeating one adds nothing."""
        first = OutcomeFact(task_id="a", outcome="success", recorded_ns=1)
        second = OutcomeFact(task_id="a", outcome="failure", score=0.1, recorded_ns=2)
        other = OutcomeFact(task_id="b", outcome="success", recorded_ns=3)
        for facts in ([second, first, first, other], [first], [], [other, second]):
            store.add_outcomes(facts)
        assert store.outcomes_of(["a"]) == [first, second]
        assert store.outcomes_of(["b", "a"]) == [first, second, other]

    def test_the_row_made_from_more_holds(self, store: Store) -> None:
        """An older, smaller summary never replaces a fuller one; an equal one does."""
        few, all_spans = [root("t1", "a")], [root("t1", "a"), call("t1", "c", "root-a")]
        store.put_tasks([row("a", all_spans)], {"t1"})
        store.put_tasks([row("a", few)], {"t1"})
        kept = store.task("a")
        assert kept is not None
        assert kept.calls == 1
        fact = OutcomeFact(task_id="a", outcome="failure", recorded_ns=1)
        store.put_tasks([row("a", all_spans, Facts(outcomes=(fact,)))], {"t1"})
        store.put_tasks([row("a", all_spans)], {"t1"})
        kept = store.task("a")
        assert kept is not None
        assert kept.outcome == "failure"

    def test_a_task_that_is_none_any_more_leaves(self, store: Store) -> None:
        """A trace that turned out to be part of a declared task is no task of its own; others stay."""
        early = [call("t1", "c", "root-a")]
        store.put_tasks([row("trace:t1", early)], {"t1"})
        other = [call("t2", "c", None)]
        store.put_tasks([row("trace:t2", other)], {"t2"})
        assert store.task_ids("") == ["trace:t1", "trace:t2"]
        store.put_tasks([row("a", [*early, root("t1", "a")])], {"t1"})
        assert store.task_ids("") == ["a", "trace:t2"]

    def test_a_task_with_more_traces_than_those_read_stays(self, store: Store) -> None:
        """Only a task that lies wholly in the given traces can leave."""
        both = [root("t1", "a"), _in_trace(root("t1", "a"), "t2")]
        store.put_tasks([row("a", both)], {"t1", "t2"})
        store.put_tasks([], {"t1"})
        assert store.task_ids("") == ["a"]
        store.put_tasks([], {"t1", "t2"})
        assert store.task_ids("") == []

    def test_tasks_are_listed_latest_first_and_filtered(self, store: Store) -> None:
        """By start, then id; by name and outcome where asked."""
        fact = OutcomeFact(task_id="b", outcome="failure", recorded_ns=1)
        rows = [
            row("a", [root("t1", "a", start_ns=100)]),
            row("b", [root("t2", "b", start_ns=300)], Facts(outcomes=(fact,))),
            row("c", [root("t3", "c", start_ns=100)]),
        ]
        store.put_tasks(rows, {"t1", "t2", "t3"})
        assert [summary.task_id for summary in store.tasks()] == ["b", "a", "c"]
        assert [summary.task_id for summary in store.tasks(TaskFilter(name="name of c"))] == ["c"]
        assert [summary.task_id for summary in store.tasks(TaskFilter(outcome="failure"))] == ["b"]
        assert [summary.task_id for summary in store.tasks(TaskFilter(outcome="unknown"))] == ["a", "c"]
        assert store.tasks(TaskFilter(name="name of a", outcome="failure")) == []

    def test_ids_are_found_by_their_beginning(self, store: Store) -> None:
        """Literally: characters that mean something in patterns mean themselves."""
        ids = ["ab1", "ab2", "a%", "b_"]
        store.put_tasks([row(task, [root(f"t-{task}", task)]) for task in ids], {f"t-{task}" for task in ids})
        assert store.task_ids("ab") == ["ab1", "ab2"]
        assert store.task_ids("a%") == ["a%"]
        assert store.task_ids("_") == []

    def test_texts_of_any_kind(self, store: Store) -> None:
        """Quotes, NUL, emoji and other scripts in ids and names come back unchanged."""
        odd = 'o\'hara "x" \x00 \N{GRINNING FACE} \u0391'
        span = root(odd, odd)
        store.add_spans([span], [(odd, odd)])
        store.put_tasks([row(odd, [span])], {odd})
        assert store.spans_of([odd]) == [span]
        assert store.traces_of([odd]) == {odd}
        assert store.task_ids("o'") == [odd]


def _in_trace(span: Span, trace: str) -> Span:
    from msgspec.structs import replace

    return replace(span, trace_id=trace)
