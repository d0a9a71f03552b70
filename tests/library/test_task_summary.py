"""`task.summary()` of tasks of every kind: it never raises, and says what is missing."""

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import agentprof
from agentprof import _guard, _names, _recent, attributes
from agentprof.summary import TaskSummary
from agentprof.testing import capture


@pytest.fixture(autouse=True)
def logged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is logged once a process is logged in each test."""
    monkeypatch.setattr(_guard, "_counts", {})


@pytest.fixture
def instrumented() -> Iterator[None]:
    """The process instrumented."""
    with capture():
        yield


def codes(summary: TaskSummary) -> dict[str, int]:
    return {warning.code: warning.count for warning in summary.warnings}


def worked(**given: Any) -> agentprof.Task:
    """A task with a tool and a task inside, ended."""
    with agentprof.task("job", labels={"customer": "acme"}, **given) as task:
        with agentprof.tool("x"):
            pass
        with agentprof.task("inner"):
            pass
        task.outcome("success", score=0.5)
    return task


def test_more_spans_than_are_kept(instrumented: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task with too many spans keeps its name, outcome and labels, and counts what is missing."""
    monkeypatch.setattr(_recent, "SPANS", 10)
    with agentprof.task("outer", labels={"customer": "acme"}) as task:
        with agentprof.task("inner") as inner:
            for _ in range(12):
                with agentprof.tool("x"):
                    pass
        for _ in range(5):
            with agentprof.tool("y"):
                pass
        assert codes(task.summary()) == {"missing_spans": 7}
        task.outcome("success")
    found = task.summary()
    assert (found.name, found.outcome, found.labels, found.sub_tasks) == (
        "outer",
        "success",
        {"customer": "acme"},
        1,
    )
    assert (codes(found), found.complete, found.tools["x"].runs) == ({"missing_spans": 7}, False, 10)
    assert (inner.summary().name, codes(inner.summary())) == ("inner", {"missing_spans": 2})
    assert _guard.counts() == {"summary spans": 7}


def test_the_sum_of_kept_spans(instrumented: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of tasks that were forgotten, and went on, do not count as kept."""
    monkeypatch.setattr(_recent, "TASKS", 2)
    monkeypatch.setattr(_recent, "_recorded", type(_recent._recorded)())
    monkeypatch.setattr(_recent, "_total", 0)
    marks = [agentprof.task(f"t{number}") for number in range(4)]
    inside = []
    for mark in marks:  # tasks that overlap, none inside another
        with capture_context():
            inside.append(mark.open(""))
    for opened in inside:
        assert opened is not None
        attachment = opened.attach()
        for _ in range(3):
            with agentprof.tool("x"):
                pass
        attachment.detach()
        opened.end(None)
    assert _recent._total == sum(len(recorded.spans) for recorded in _recent._recorded.values()) == 8
    first = inside[0]
    assert first is not None
    assert first.task is not None
    assert first.task.summary().tools["x"].runs == 3


def capture_context() -> Any:
    """A context outside any task, for a block."""
    from contextlib import contextmanager

    from opentelemetry.context import Context

    from agentprof._context import Attachment

    @contextmanager
    def outside() -> Iterator[None]:
        attachment = Attachment(Context())
        yield
        attachment.detach()

    return outside()


@pytest.mark.parametrize(
    "limits",
    [
        SpanLimits(max_attribute_length=16),
        SpanLimits(max_span_attributes=1),
        SpanLimits(max_span_attributes=0),
    ],
    ids=["short values", "one attribute", "none"],
)
@pytest.mark.filterwarnings("ignore:Attributes dict is full")
def test_spans_that_say_less(limits: SpanLimits) -> None:
    """Limits of the SDK for what spans say change nothing of what we know of a task."""
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    agentprof.instrument(tracer_provider=provider)
    try:
        task = worked(id=f"an-id-of-more-than-sixteen-characters {limits}")
        with agentprof.task("two") as other, provider.get_tracer("theirs").start_as_current_span("theirs"):
            pass
    finally:
        agentprof.uninstrument()
    found = task.summary()
    assert (found.task_id, found.name, found.outcome, found.score) == (task.id, "job", "success", 0.5)
    assert (found.labels, found.sub_tasks, codes(found)) == ({"customer": "acme"}, 1, {})
    assert (other.summary().name, other.summary().complete) == ("two", True)
    assert sum(row.runs for row in other.summary().nodes) == 1


def test_a_foreign_span_that_says_too_much(instrumented: None) -> None:
    """It stays in its task though its many attributes push out the id."""
    provider = TracerProvider(shutdown_on_exit=False)
    agentprof.uninstrument()
    agentprof.instrument(tracer_provider=provider)
    with agentprof.task("t") as task, provider.get_tracer("theirs").start_as_current_span("chat m") as span:
        for number in range(200):
            span.set_attribute(f"their.{number}", number)
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", "m")
    assert task.summary().calls == 1


def test_nothing_is_recorded() -> None:
    """Without instrumentation, or with spans that are not sampled, a summary has what is known and warns."""
    without = worked()
    agentprof.instrument(tracer_provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    try:
        unsampled = worked()
    finally:
        agentprof.uninstrument()
    for task in (without, unsampled):
        found = task.summary()
        assert (found.task_id, found.name, found.outcome) == (task.id, "job", "success")
        assert (found.labels, codes(found), found.complete) == (
            {"customer": "acme"},
            {"not_recorded": 1},
            False,
        )
        assert 0 < found.wall_ns == found.timeline_ns["other"]
        assert "instrument()" in str(found)
        assert json.loads(json.dumps(found.to_dict()))["name"] == "job"


def test_calls_of_a_task_that_was_not_recorded() -> None:
    """They count as they were counted, with a cost that is known to be incomplete."""
    from agentprof.model import Usage

    with agentprof.task("t") as task:
        task.count_call(Usage(input=10, output=2), None)
    found = task.summary()
    assert (found.calls, found.tokens["input"], found.tokens["output"]) == (1, 10, 2)
    assert (found.cost_usd, found.cost_complete, found.attempts) == (None, False, None)
    assert "1 model call" in str(found)
    assert found._repr_html_()


@pytest.mark.parametrize(
    ("given", "id"),
    [
        ("t-1", "t-1"),
        (5, "5"),
        (0, "0"),
        (b"x", "x"),
        ("caf\udce9", "caf?"),
        ("x" * 256, "x" * 256),
    ],
)
def test_ids_of_every_kind(instrumented: None, given: Any, id: str) -> None:
    """An id is text, whatever was given."""
    task = worked(id=given)
    assert task.id == task.summary().task_id == id
    assert codes(task.summary()) == {}


def test_ids_that_are_none(instrumented: None) -> None:
    """An empty id is none: the task gets one of its own."""
    assert len({worked(id="").id, worked(id=None).id, worked(id=b"").id}) == 3


def test_long_ids_stay_apart(instrumented: None) -> None:
    """Two ids that differ beyond the limit are two tasks."""
    one, other, again = worked(id="x" * 2000 + "1"), worked(id="x" * 2000 + "2"), worked(id="x" * 2000 + "1")
    assert one.id == again.id != other.id
    assert len(one.id) == len(other.id) == 256
    assert one.summary().task_id == one.id


def test_a_task_with_many_labels(instrumented: None, caplog: pytest.LogCaptureFixture) -> None:
    """It keeps the first of them, and everything else it says; a line says so once."""
    with agentprof.task("many", labels={f"k{number}": "v" for number in range(200)}) as task:
        task.label("one more", "v")
        task.label("k0", "changed")
    found = task.summary()
    assert (found.task_id, len(found.labels), found.labels["k0"]) == (task.id, _names.LABELS, "changed")
    assert [record.getMessage() for record in caplog.records] == [
        "agentprof: a task has 64 labels at most; others are left out"
    ]


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["a"], {}),
        ({}, {}),
        ({1: None, "": "x", b"b": 2.5, "long": "x" * 3000}, {"b": "2.5", "long": "x" * 1024}),
    ],
)
def test_labels_of_every_kind(instrumented: None, given: Any, labels: dict[str, str]) -> None:
    """Keys and values are texts of bounded length; what is no mapping is left out, and the task is not."""
    with agentprof.task("t", labels=given) as task:
        pass
    assert task.summary().labels == labels


@pytest.mark.parametrize("name", ["", None])
def test_tasks_without_a_name(instrumented: None, name: Any) -> None:
    """They are named for what they are."""
    with agentprof.task(name) as task, agentprof.step(name), agentprof.tool(name):
        pass
    found = task.summary()
    assert [row.path for row in found.nodes] == [["task"], ["task", "step"], ["task", "step", "tool"]]

    @agentprof.task(name)
    def work() -> agentprof.Task | None:
        return agentprof.current_task()

    named = work()
    assert named is not None
    assert named.summary().name == "work"


def test_an_sdk_that_is_switched_off() -> None:
    """With `OTEL_SDK_DISABLED` a program that prints its summary goes on."""
    program = """
        import agentprof
        agentprof.instrument()
        with agentprof.task("t") as task:
            pass
        print(task.summary())
        """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "OTEL_SDK_DISABLED": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no span of the task was recorded" in done.stdout


def test_prices_of_whom_the_process_is_instrumented_for(tmp_path: Path) -> None:
    """Instrumented anew with another agentprof.yaml, a summary has the prices of that one."""
    found = []
    for usd in ("1", "2.5"):
        config = tmp_path / f"{usd}.yaml"
        config.write_text(f"tools: {{search: {usd}}}\n")
        provider = TracerProvider(shutdown_on_exit=False)
        agentprof.instrument(tracer_provider=provider, config=str(config))
        try:
            with agentprof.task("t") as task, agentprof.tool("search"):
                pass
            found.append(task.summary().tool_cost_usd)
        finally:
            agentprof.uninstrument()
    assert found == [Decimal(1), Decimal("2.5")]


def test_a_failure_of_ours(instrumented: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If adding up fails, the summary is what is known without it, and the failure is counted."""
    from agentprof import _summary

    task = worked()
    monkeypatch.setattr(_summary, "tasks_in", lambda spans: 1 // 0)
    found = task.summary()
    assert (found.name, codes(found)) == ("job", {"missing_spans": 1, "not_recorded": 1})
    assert _guard.counts() == {"adding up a task": 1}


def test_the_span_of_a_task_says_it_all() -> None:
    """What is exported has all attributes of the task, also with as many labels as there may be."""
    with capture() as captured, agentprof.task("t", labels={f"k{n}": "v" for n in range(100)}) as task:
        task.outcome("failure")
    said = captured.spans[0].attributes or {}
    assert said[attributes.TASK_ID] == task.id
    assert said[attributes.TASK_OUTCOME] == "failure"
    assert len([key for key in said if key.startswith(attributes.LABEL)]) == _names.LABELS


def _nothing() -> None:
    pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_other_processes_do_is_not_in_it() -> None:
    """A task in which a process was forked, or which gave work to one, says so; one after it does not."""
    fork = multiprocessing.get_context("fork")
    with capture(), fork.Pool(1) as pool:
        with agentprof.task("forks") as forks:
            child = fork.Process(target=_nothing)
            child.start()
            child.join()
        with agentprof.task("outer") as outer, agentprof.task("gives work") as gives:
            pool.apply(_nothing)
        with agentprof.task("alone") as alone:
            pass
        later = fork.Process(target=_nothing)
        later.start()
        later.join()
        found = {task.name: task.summary() for task in (forks, outer, gives, alone)}
    warned = {name: [warning.code for warning in summary.warnings] for name, summary in found.items()}
    assert warned == {
        "forks": ["other_processes"],
        "outer": ["other_processes"],
        "gives work": ["other_processes"],
        "alone": [],
    }
    assert not found["forks"].complete
    assert not found["forks"].cost_complete
    assert found["alone"].complete
