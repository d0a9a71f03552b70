"""Tasks, tools, steps and human stretches."""

import asyncio
import decimal
import os
import sys
import threading
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from support.marked_kinds import coroutine, plain
from support.recorded import id_of, parent_of, said

import agentprof
from agentprof import _guard, attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def test_a_task(captured: Captured) -> None:
    """The span that starts a task says all of it; spans inside carry the id alone."""
    with agentprof.task("triage", id="t-1", labels={"customer": "a"}) as task:
        task.label("variant", "b")
        with agentprof.step("plan"), agentprof.human():
            pass
        plain(1)
        task.outcome("success", score=0.5)
    human, step, tool, root = captured.spans
    assert said(root) == {
        attributes.TASK_ID: "t-1",
        attributes.TASK_NAME: "triage",
        attributes.TASK_SOURCE: "declared",
        attributes.LABEL + "customer": "a",
        attributes.LABEL + "variant": "b",
        attributes.TASK_OUTCOME: "success",
        attributes.TASK_SCORE: 0.5,
        attributes.TASK_SPANS: 3,
    }
    assert said(step) == {attributes.STEP_NAME: "plan", attributes.TASK_ID: "t-1"}
    assert said(human)[attributes.HUMAN] is True
    assert said(tool) == {
        attributes.OPERATION: "execute_tool",
        attributes.TOOL_NAME: "plain",
        attributes.TASK_ID: "t-1",
        attributes.FINGERPRINT_ARGUMENTS: said(tool)[attributes.FINGERPRINT_ARGUMENTS],
    }
    assert (tool.name, root.name) == ("execute_tool plain", "triage")
    assert [parent_of(span) for span in (human, step, tool, root)] == [
        id_of(step),
        id_of(root),
        id_of(root),
        None,
    ]


def test_an_exception_leaving_a_task(captured: Captured) -> None:
    """It is a failure with the exception's class, never its message, and it goes on unchanged."""
    error = KeyError("secret")

    @agentprof.task("t")
    def work() -> None:
        task = agentprof.current_task()
        assert task is not None
        task.outcome("success")
        raise error

    with pytest.raises(KeyError) as caught:
        work()
    assert caught.value is error
    (root,) = captured.spans
    assert said(root)[attributes.TASK_OUTCOME] == "failure"
    assert said(root)[attributes.ERROR_TYPE] == "KeyError"
    assert root.status.status_code is StatusCode.ERROR
    assert "secret" not in root.to_json()


def test_an_ordinary_exit_is_no_failure(captured: Captured) -> None:
    """`sys.exit()` without an error leaves the outcome as it was."""
    with pytest.raises(SystemExit), agentprof.task("t"):
        raise SystemExit(0)
    assert attributes.TASK_OUTCOME not in said(captured.spans[0])


def test_a_failed_tool_does_not_fail_its_task(captured: Captured) -> None:
    """An exception that the task handles marks the tool alone."""
    with agentprof.task("t"), pytest.raises(ValueError, match="no"), agentprof.tool("search"):
        raise ValueError("no")
    tool, root = captured.spans
    assert said(tool)[attributes.ERROR_TYPE] == "ValueError"
    assert attributes.TASK_OUTCOME not in said(root)


def test_nested_tasks(captured: Captured) -> None:
    """A task inside a task names it, has spans of its own, and shares its trace."""
    with agentprof.task("outer") as outer:
        with agentprof.task("inner") as inner, agentprof.step("s"):
            assert agentprof.current_task() is inner
        assert agentprof.current_task() is outer
    assert agentprof.current_task() is None
    step, inside, outside = captured.spans
    assert said(inside)[attributes.TASK_PARENT_ID] == outer.id
    assert said(step)[attributes.TASK_ID] == inner.id
    assert (said(inside)[attributes.TASK_SPANS], said(outside)[attributes.TASK_SPANS]) == (1, 0)
    assert inside.context is not None
    assert outside.context is not None
    assert inside.context.trace_id == outside.context.trace_id


def test_one_mark_entered_at_the_same_time(captured: Captured) -> None:
    """A mark shared by asyncio tasks gives each its own span, whatever order they end in."""
    mark = agentprof.tool("shared")

    async def work(name: str, steps: int) -> None:
        async with agentprof.task(name):
            with mark:
                for _ in range(steps):
                    await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(work("slow", 5), work("quick", 1))

    asyncio.run(run())
    tools = captured.named("execute_tool")
    tasks = {id_of(span): span.name for span in captured.spans if attributes.TASK_NAME in said(span)}
    assert [tasks[parent_of(tool) or 0] for tool in tools] == ["quick", "slow"]


def test_one_mark_left_by_many_threads_at_once(captured: Captured) -> None:
    """Every run ends, and none is held on to."""
    mark, threads, rounds = agentprof.step("shared"), 100, 30
    at_once = threading.Barrier(threads)

    def work() -> None:
        for _ in range(rounds):
            with mark:
                at_once.wait()
            at_once.wait()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(captured.spans) == threads * rounds
    assert mark._running == []


def test_spent_counts_tools_and_calls(captured: Captured) -> None:
    """Counters run while the task does, sub-tasks included."""
    with agentprof.task("outer") as outer:
        with agentprof.task("inner"):
            asyncio.run(coroutine(1))
        with agentprof.tool("t", cost_usd=Decimal("0.1")):
            pass
        spent = outer.spent()
    assert spent.cost_usd == Decimal("0.102")
    assert (spent.calls, spent.input_tokens, spent.unpriced_calls) == (0, 0, 0)
    assert 0 < spent.elapsed_s < 5
    assert outer.spent().elapsed_s == outer.spent().elapsed_s


def test_spent_adds_up_over_threads(captured: Captured) -> None:
    """Nothing is lost where many threads of a task spend at once."""

    def spend() -> None:
        for _ in range(2_000):
            outer.count_cost(Decimal("0.001"))
            outer.count_call(None, Decimal("0.002"))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with agentprof.task("t") as outer:
            workers = [threading.Thread(target=spend) for _ in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert outer.spent()[:4] == (16_000, 0, 0, Decimal(48))


def test_spent_is_exact(captured: Captured) -> None:
    """A program may have set its decimal context to a few digits, and to raise for any digit lost."""
    with decimal.localcontext(decimal.Context(prec=2, traps=[decimal.Inexact])), agentprof.task("t") as outer:
        for cost_usd in ("0.123456", "100", "0.000001"):
            with agentprof.tool("t", cost_usd=cost_usd):
                pass
        outer.count_call(None, Decimal("0.0071"))
    assert outer.spent().cost_usd == Decimal("100.130557")
    assert outer.summary().tool_cost_usd == Decimal("100.123457")


@pytest.mark.parametrize(
    "cost_usd", ["free", "-1", float("nan"), "1e-999999999", pytest.param(10**5000, id="long int"), True]
)
def test_what_is_no_cost_is_unknown(
    cost_usd: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once, and neither raises nor becomes part of a sum."""
    monkeypatch.setattr(_guard, "_counts", {})
    with capture(), agentprof.task("t") as task:
        for cost in (cost_usd, cost_usd, "0.25"):
            with agentprof.tool("t", cost_usd=cost):
                pass
    assert [record.getMessage() for record in caplog.records] == [
        "agentprof: cost_usd is no amount in US dollars, zero or more; it is unknown"
    ]
    assert task.spent().cost_usd == task.summary().tool_cost_usd == Decimal("0.25")


def test_a_summary_inside_and_after(captured: Captured) -> None:
    """It covers what there is so far, open spans up to now, and all of it at the end."""
    with agentprof.task("outer") as outer:
        with agentprof.tool("t", cost_usd="0.25"):
            pass
        with agentprof.step("open"):
            inside = outer.summary()
        with agentprof.task("inner") as inner:
            pass
    after = outer.summary()
    assert (inside.task_id, inside.name, inside.outcome) == (outer.id, "outer", None)
    assert inside.tools["t"].runs == 1
    assert 0 < inside.wall_ns < after.wall_ns
    assert sum(after.to_dict()["timeline_ns"].values()) == after.wall_ns
    assert after.to_dict()["cost_usd"] == "0.25"
    assert after.sub_tasks == 1
    assert inner.summary().to_dict()["parent_task_id"] == outer.id


def test_marks_without_instrumentation() -> None:
    """They do nothing visible, and a summary says what is missing."""
    with agentprof.task("t") as task, agentprof.step("s"):
        assert plain(2) == 4
        assert agentprof.current_task() is task
    assert "instrument()" in task.summary().warnings[0].detail


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_carries_the_task_on(captured: Captured) -> None:
    """The child's spans have the task's id and parent; the task's own span ends in the parent alone."""
    reader, writer = os.pipe()
    with agentprof.task("t") as task:
        child = os.fork()
        if child == 0:
            plain(1)
    if child == 0:
        ended = [f"{span.name} {said(span)[attributes.TASK_ID]}" for span in captured.spans]
        os.write(writer, "|".join(ended).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 200).decode() == f"execute_tool plain {task.id}"
    os.close(reader)
    assert [span.name for span in captured.spans] == ["t"]


def test_wrong_outcome() -> None:
    """An outcome that is neither is refused with both names."""
    with agentprof.task("t") as task, pytest.raises(ValueError, match="'success' or 'failure'"):
        task.outcome("done")  # type: ignore[arg-type]


def test_a_late_outcome(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the span of a task has gone its outcome cannot be told, and a line says so."""
    monkeypatch.setattr(_guard, "_counts", {})
    with agentprof.task("t") as task:
        pass
    task.outcome("success")
    assert [record.getMessage() for record in caplog.records] == [
        "agentprof: an outcome after the end of its task is not recorded"
    ]


def test_memory_is_bounded(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of old tasks are forgotten; a task beyond the limit keeps its first spans."""
    from agentprof import _recent

    monkeypatch.setattr(_recent, "TASKS", 3)
    tasks = []
    for number in range(5):
        with agentprof.task(f"t{number}") as task:
            tasks.append(task)
    assert [task.id in _recent._recorded for task in tasks] == [False, False, True, True, True]
    assert tasks[4].summary().name == "t4"
