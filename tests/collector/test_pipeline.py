import io
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentprof.model import OutcomeFact, RawSpan
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up
from agentprof.vocabularies import normalise
from agentprof_collector import pipeline as pipeline_module
from agentprof_collector import recompute as recompute_module
from agentprof_collector.errors import InputError, TaskNotAddedUp
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.recompute import record_outcome, spans_of_tasks
from agentprof_collector.stores import Store, open_store

T0 = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def task_span(trace: str, task: str, **attributes: Any) -> RawSpan:
    """The span that starts a task, from 0 to 10 s."""
    own = {"agentprof.task.id": task, "agentprof.task.name": "answer", "agentprof.task.source": "declared"}
    return RawSpan(
        trace_id=trace,
        span_id=f"{task}-root",
        name="answer",
        start_ns=T0,
        end_ns=T0 + 10 * SECOND,
        attributes=own | attributes,
    )


def call_span(trace: str, task: str, number: int, parent: str | None = None) -> RawSpan:
    """A call of one second with 1,000 tokens in and 100 out."""
    return RawSpan(
        trace_id=trace,
        span_id=f"{task}-call{number}",
        parent_id=parent or f"{task}-root",
        name="chat gpt-4o",
        kind=3,
        start_ns=T0 + number * SECOND,
        end_ns=T0 + (number + 1) * SECOND,
        attributes={
            "agentprof.task.id": task,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
        },
    )


@pytest.fixture
def store() -> Any:
    with open_store(None) as store:
        yield store


def feed(store: Store, *batches: list[RawSpan]) -> None:
    """Each batch as a delivery of its own, added up after each."""
    for batch in batches:
        pipeline = Pipeline(store, Pricer())
        pipeline.accept(batch)
        pipeline.recompute()


def test_a_span_becomes_part_of_a_priced_summary(store: Store) -> None:
    """Tokens, time and price of two calls under a task are in its row."""
    feed(store, [task_span("t", "a"), call_span("t", "a", 1), call_span("t", "a", 2)])
    (summary,) = store.tasks()
    assert (summary.task_id, summary.name, summary.calls) == ("a", "answer", 2)
    assert summary.wall_ns == 10 * SECOND
    assert summary.timeline_ns["model"] == 2 * SECOND
    assert summary.timeline_ns["other"] == 8 * SECOND
    assert (summary.tokens["input"], summary.tokens["output"]) == (2000, 200)
    # Listed: 2.50 and 10.00 dollars a million tokens.
    assert summary.cost_usd == Decimal("0.007")


def test_spans_are_priced_before_they_are_stored(store: Store) -> None:
    """The price stands in the stored span, so that the next table does not change what was paid."""
    feed(store, [task_span("t", "a"), call_span("t", "a", 1)])
    (span,) = [span for span in store.spans_of(["t"]) if span.call is not None]
    assert span.call is not None
    assert span.call.cost is not None
    assert span.call.cost.amount_usd == Decimal("0.0035")
    assert span.call.cost.table


def test_deliveries_in_any_order_and_twice_end_in_the_same_row(store: Store) -> None:
    """Late, repeated and reordered spans, added up in between, change nothing in the end."""
    spans = [task_span("t", "a"), *(call_span("t", "a", number) for number in range(1, 7))]
    feed(store, spans)
    expected = store.task("a")
    chance = random.Random(7)
    for round_number in range(5):
        trace, task = f"t{round_number}", f"a{round_number}"
        again = [task_span(trace, task), *(call_span(trace, task, number) for number in range(1, 7))]
        deliveries = [[span] for span in again] + [again[:3], again]
        chance.shuffle(deliveries)
        feed(store, *deliveries)
        summary = store.task(task)
        assert summary is not None
        assert expected is not None
        assert summary.to_dict() | {"task_id": "a", "trace_ids": ["t"]} == expected.to_dict()


def test_a_root_that_arrives_late_takes_its_trace_over(store: Store) -> None:
    """Until the declared task is known the trace is a task of its own, afterwards no longer."""
    asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    below = RawSpan(
        trace_id="t",
        span_id="x",
        parent_id="a-root",
        start_ns=T0,
        end_ns=T0 + SECOND,
        attributes=asked,
    )
    feed(store, [below])
    assert store.task_ids("") == ["trace:t"]
    feed(store, [task_span("t", "a")])
    assert store.task_ids("") == ["a"]
    summary = store.task("a")
    assert summary is not None
    assert summary.calls == 1


def test_a_task_over_two_traces(store: Store) -> None:
    """Spans that carry the task's id in another trace count for it, whichever trace comes last."""
    first = [task_span("t1", "a"), call_span("t1", "a", 1)]
    second = [call_span("t2", "a", 2)]
    feed(store, second, first)
    feed_other_way = [first, second]
    (summary,) = store.tasks()
    assert (summary.calls, summary.trace_ids) == (2, ["t1", "t2"])
    with open_store(None) as other:
        feed(other, *feed_other_way)
        assert other.tasks() == [summary]


def test_a_sub_task_in_another_trace_counts_in_the_task_above(store: Store) -> None:
    """What arrives for a sub-task brings the rows of all tasks above it up to date."""
    top = [task_span("t1", "top"), call_span("t1", "top", 1)]
    middle = [task_span("t2", "mid", **{"agentprof.task.parent_id": "top"})]
    low = [task_span("t3", "low", **{"agentprof.task.parent_id": "mid"}), call_span("t3", "low", 2)]
    feed(store, top, middle, low)
    calls = {summary.task_id: summary.calls for summary in store.tasks()}
    assert calls == {"top": 2, "mid": 1, "low": 1}
    (late,) = [call_span("t3", "low", 4)]
    feed(store, [late])
    calls = {summary.task_id: summary.calls for summary in store.tasks()}
    assert calls == {"top": 3, "mid": 2, "low": 2}


def test_an_outcome_recorded_later_holds(store: Store) -> None:
    """Against what the program said, and still after more spans arrive."""
    feed(store, [task_span("t", "a", **{"agentprof.task.outcome": "success"})])
    record_outcome(store, OutcomeFact(task_id="a", outcome="failure", score=0.25, recorded_ns=5))
    feed(store, [call_span("t", "a", 1)])
    summary = store.task("a")
    assert summary is not None
    assert (summary.outcome, summary.score, summary.calls) == ("failure", 0.25, 1)


def test_spans_of_tasks(store: Store) -> None:
    """The spans behind summaries, from every trace they lie in."""
    feed(store, [task_span("t1", "a"), call_span("t2", "a", 1), task_span("t3", "b")])
    summary = store.task("a")
    assert summary is not None
    assert {span.key for span in spans_of_tasks(store, [summary])["a"]} == {
        ("t1", "a-root"),
        ("t2", "a-call1"),
    }


def test_what_stood_before_a_mistake_is_stored(store: Store) -> None:
    """The requests around a bad line are kept and added up; what was left out of them is counted."""
    span = {"traceId": "ab", "spanId": "01", "startTimeUnixNano": "5", "endTimeUnixNano": "9"}
    span["attributes"] = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]  # type: ignore[assignment]
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, {"name": "no ids"}]}]}]})
    pipeline = Pipeline(store, Pricer())
    with pytest.raises(InputError, match="f, line 2"):
        pipeline.read(io.BytesIO(f"{line}\nnot json\n".encode()), "f")
    assert (pipeline.spans, pipeline.skipped, pipeline.first_left_out) == (1, 1, "f, line 1")
    assert pipeline.recompute() == ["trace:ab"]


def test_many_traces_are_added_up_in_pieces(store: Store) -> None:
    """More traces than are read at once are all added up, each once."""
    spans = [call_span(f"t{number}", f"a{number}", 1) for number in range(1_203)]
    pipeline = Pipeline(store, Pricer())
    pipeline.accept(spans)
    ids = pipeline.recompute()
    assert len(ids) == len(set(ids)) == 1_203
    assert len(store.tasks()) == 1_203


def broken_for(task_id: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes adding up one task fail, as a mistake of ours would; the ids in the order they are added up."""
    asked: list[str] = []

    def failing(own_id: str, *arguments: Any) -> Any:
        asked.append(own_id)
        if own_id == task_id:
            raise ZeroDivisionError("by\x1b[2J zero")
        return roll_up(own_id, *arguments)

    monkeypatch.setattr(recompute_module, "roll_up", failing)
    return asked


def test_a_task_that_cannot_be_added_up_keeps_no_other_from_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of the same write nor those in the same trace; it is told with its id."""
    broken_for("bad", monkeypatch)
    pipeline = Pipeline(store, Pricer())
    pipeline.accept([*(task_span(f"t{n}", f"a{n}") for n in range(20)), task_span("t3", "bad")])
    told: list[TaskNotAddedUp] = []
    assert sorted(pipeline.recompute(told.append)) == sorted(f"a{n}" for n in range(20))
    assert [error.task_id for error in told] == ["bad"]
    assert str(told[0]).startswith("task bad could not be added up (ZeroDivisionError: by\\x1b[2J zero)")
    assert {summary.task_id for summary in store.tasks()} == {f"a{n}" for n in range(20)}


def test_without_a_listener_a_failure_is_logged(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that it reaches stderr where nothing else is set up."""
    broken_for("bad", monkeypatch)
    feed(store, [task_span("t", "bad"), task_span("u", "good")])
    assert "task bad could not be added up" in caplog.text
    assert store.task_ids("") == ["good"]


def test_a_row_that_cannot_be_written_keeps_no_other_from_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A summary that no JSON can hold costs its own row."""

    def odd(own_id: str, *arguments: Any) -> Any:
        summary = roll_up(own_id, *arguments)
        return msgspec.structs.replace(summary, name="\ud800") if own_id == "a1" else summary

    monkeypatch.setattr(recompute_module, "roll_up", odd)
    pipeline = Pipeline(store, Pricer())
    pipeline.accept([task_span(f"t{n}", f"a{n}") for n in range(3)])
    told: list[TaskNotAddedUp] = []
    assert sorted(pipeline.recompute(told.append)) == ["a0", "a2"]
    assert [error.task_id for error in told] == ["a1"]
    assert store.task_ids("") == ["a0", "a2"]


def test_a_large_task_is_added_up_after_all_others_are_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can take long; by then every other row is there, those of later traces too."""
    monkeypatch.setattr(recompute_module, "_LARGE", 10)
    monkeypatch.setattr(recompute_module, "_TRACES_PER_RECOMPUTE", 2)
    written: list[list[str]] = []

    def looking(own_id: str, *arguments: Any) -> Any:
        written.append(store.task_ids(""))
        return roll_up(own_id, *arguments)

    monkeypatch.setattr(recompute_module, "roll_up", looking)
    pipeline = Pipeline(store, Pricer())
    large = [task_span("t0", "large"), *(call_span("t0", "large", n) for n in range(20))]
    pipeline.accept([*large, *(task_span(f"t{n}", f"a{n}") for n in range(1, 8))])
    seen: list[tuple[int, int]] = []
    ids = pipeline.recompute(progress=lambda done, of: seen.append((done, of)))
    assert ids[-1] == "large"
    assert written[-1] == [f"a{n}" for n in range(1, 8)]
    assert seen == [(2, 8), (4, 8), (6, 8), (8, 8)]
    assert len(store.tasks()) == 8


def test_a_span_that_breaks_its_reader_costs_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted; the spans beside it are stored."""

    def failing(span: RawSpan) -> Any:
        if span.span_id == "a-call2":
            raise ZeroDivisionError("by zero")
        return normalise(span)

    monkeypatch.setattr(pipeline_module, "normalise", failing)
    pipeline = Pipeline(store, Pricer())
    pipeline.accept([task_span("t", "a"), *(call_span("t", "a", n) for n in range(1, 4))])
    pipeline.recompute()
    assert (pipeline.spans, pipeline.skipped) == (3, 1)
    summary = store.task("a")
    assert summary is not None
    assert summary.calls == 2


def test_outcomes_count_for_their_own_task_only(store: Store) -> None:
    """Facts of tasks added up together do not keep a later fact of one of them from its row."""
    spans = [task_span(f"t{n}", f"a{n}") for n in range(10)]
    feed(store, spans)
    for n in range(10):
        record_outcome(store, OutcomeFact(task_id=f"a{n}", outcome="success", recorded_ns=5))
    feed(store, spans)
    record_outcome(store, OutcomeFact(task_id="a3", outcome="failure", recorded_ns=6))
    outcomes = {summary.task_id: summary.outcome for summary in store.tasks()}
    assert outcomes == {f"a{n}": "success" for n in range(10)} | {"a3": "failure"}


def test_real_traces_keep_their_rows_when_read_again(shared: Path, store: Store) -> None:
    """Reading files of three vocabularies a second time, in another order, gives the same rows."""
    files = sorted((shared / "data" / "several").glob("*.otlp.jsonl"))
    assert files

    def read(order: list[Path]) -> list[dict[str, Any]]:
        pipeline = Pipeline(store, Pricer())
        for file in order:
            with file.open("rb") as stream:
                pipeline.read(stream, file.name)
        pipeline.recompute()
        return [summary.to_dict() for summary in store.tasks()]

    first = read(files)
    assert len(first) == 100
    assert read(files[::-1]) == first
