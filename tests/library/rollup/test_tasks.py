"""Which spans belong to which task."""

from __future__ import annotations

from typing import Any

import pytest
from support.spans import TASK, TRACE, call, span, step, task, tool

from agentprof.model import TaskMark
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.tasks import NESTING_LIMIT

OTHER_TRACE = "0" * 31 + "2"


def ids(spans: list[object]) -> set[str]:
    """The span ids of a task."""
    return {s.span_id for s in spans}  # type: ignore[attr-defined]


def test_a_span_belongs_to_the_task_of_its_nearest_ancestor() -> None:
    """Spans above and beside a declared task are in no task, unless they make one of their own."""
    found = tasks_in(
        [
            span("POST", 0, 100),
            task("root", 10, 90, "POST"),
            step("s", 20, 80, "root"),
            call("c", 30, 40, "s"),
            span("beside", 90, 95, "POST"),
        ]
    )
    assert {task_id: ids(spans) for task_id, spans in found.items()} == {TASK: {"root", "s", "c"}}


def test_the_rest_of_a_trace_is_a_task_if_it_has_a_call_tool_or_agent() -> None:
    """With id `trace:<trace id>`."""
    found = tasks_in([span("POST", 0, 100), task("root", 10, 50, "POST"), call("c", 60, 70, "POST")])
    assert ids(found[f"trace:{TRACE}"]) == {"POST", "c"}
    assert tasks_in([span("POST", 0, 100), step("s", 1, 2, "POST")]) == {}


def test_a_task_spans_traces_and_services() -> None:
    """Joined by the id its spans carry."""
    far = call("c", 20, 30, "gone", trace_id=OTHER_TRACE, task=TaskMark(id=TASK))
    found = tasks_in([task("root", 0, 100), far])
    assert ids(found[TASK]) == {"root", "c"}
    assert roll_up(TASK, found[TASK]).trace_ids == [TRACE, OTHER_TRACE]


def test_a_task_holds_the_spans_of_its_sub_tasks() -> None:
    """Also of those that say their parent from another trace; each sub-task has its own alone."""
    found = tasks_in(
        [
            task("root", 0, 100),
            task("inner", 10, 60, "root", id="inner"),
            call("c", 20, 30, "inner"),
            task("far", 0, 50, None, id="far", parent_id="inner", trace_id=OTHER_TRACE),
            call("d", 5, 10, "far", trace_id=OTHER_TRACE),
        ]
    )
    assert ids(found[TASK]) == {"root", "inner", "c", "far", "d"}
    assert ids(found["inner"]) == {"inner", "c", "far", "d"}
    assert ids(found["far"]) == {"far", "d"}
    summary = roll_up(TASK, found[TASK])
    assert (summary.calls, summary.sub_tasks, summary.parent_task_id) == (2, 2, None)
    assert roll_up("inner", found["inner"]).parent_task_id == TASK


def test_a_failed_sub_task_does_not_fail_its_parent() -> None:
    """It counts among the errors."""
    summary = roll_up(
        TASK, [task("root", 0, 100, outcome="success"), task("i", 1, 2, "root", id="i", outcome="failure")]
    )
    assert (summary.outcome, summary.errors["task"]) == ("success", 1)


def test_a_span_that_only_names_its_task_starts_it_where_no_other_does() -> None:
    """Programs without agentprof put the id on their root span."""
    spans = [step("root", 0, 100, None, task=TaskMark(id="mine")), call("c", 10, 20, "root")]
    summary = roll_up("mine", tasks_in(spans)["mine"])
    assert (summary.name, summary.wall_ns, summary.complete) == ("root", 100, True)
    assert summary.timeline_ns["other"] == 90


def test_tasks_that_name_each_other_as_parents_end() -> None:
    """One of them counts as the outermost, so that neither is lost in lists and totals."""
    found = tasks_in(
        [task("a", 0, 9, None, id="a", parent_id="b"), task("b", 0, 9, None, id="b", parent_id="a")]
    )
    assert ids(found["a"]) == {"a", "b"}
    assert ids(found["b"]) == {"b"}
    assert (roll_up("a", found["a"]).parent_task_id, roll_up("b", found["b"]).parent_task_id) == (None, "a")


def test_a_task_that_names_itself_as_parent_is_outermost() -> None:
    """Else it would be in no list."""
    found = tasks_in([task("a", 0, 9, None, id="a", parent_id="a"), call("c", 1, 2, "a")])
    summary = roll_up("a", found["a"])
    assert (summary.parent_task_id, summary.calls) == (None, 1)


@pytest.mark.parametrize("make", [call, tool])
def test_a_run_that_names_its_task_and_is_its_only_root_still_counts(make: Any) -> None:
    """It is what the task did, not the task."""
    found = tasks_in([make("c", 0, 9, None, task=TaskMark(id="one"))])
    summary = roll_up("one", found["one"])
    assert (summary.calls + sum(tool.runs for tool in summary.tools.values()), summary.wall_ns) == (1, 9)
    assert summary.timeline_ns["other"] == 0


def test_a_chain_of_tasks_costs_its_length_not_its_square() -> None:
    """One nested deeper than the limit counts as part of the task at the limit; nothing is lost."""
    deep = 500
    spans = [task("r0", 0, 10**6, id="t0")]
    spans += [task(f"r{i}", i, 10**6 - i, f"r{i - 1}", id=f"t{i}") for i in range(1, deep)]
    found = tasks_in([*spans, call("c", deep, deep + 5, f"r{deep - 1}")])
    assert len(found) == NESTING_LIMIT
    assert sum(map(len, found.values())) < (NESTING_LIMIT + 1) * deep
    summary = roll_up("t0", found["t0"])
    assert (summary.calls, summary.sub_tasks, summary.timeline_ns["model"]) == (1, deep - 1, 5)
