"""What an engine says of a call reaches the page and Jaeger, also when it comes after the call."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import pytest
from support.collecting import JSON, Collected, collecting
from support.collector_server import CollectorServer
from support.late_engine import CALL, CLIENT, ENGINE, JOINED, MS, the_client, the_engine

from agentprof import attributes as a
from agentprof.summary import TaskSummary
from agentprof_collector.collect import collector as collecting_module
from agentprof_collector.phase_export import PhaseExporter

PATIENCE_S = 30.0


def send(collected: Collected, *bodies: bytes) -> None:
    """Each in a request of its own."""
    for body in bodies:
        assert collected.send(body, content_type=JSON).status == 200


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def summary_of(collected: Collected) -> TaskSummary | None:
    """The task, if it is added up."""
    return collected.store.task("t")


def has_prefill(collected: Collected) -> bool:
    """The task is added up with what the engine says."""
    summary = summary_of(collected)
    return summary is not None and summary.timeline_ns["prefill"] > 0


def drawn(receiver: CollectorServer) -> list[tuple[str, float, str]]:
    """The phase spans that came: name, ms, source; all of them children of the call."""
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in receiver.spans} == {(CLIENT, CALL)}
    return [
        (
            span.name,
            (span.end_time_unix_nano - span.start_time_unix_nano) / MS,
            next(p.value.string_value for p in span.attributes if p.key == a.PHASE_SPAN_SOURCE),
        )
        for span in sorted(receiver.spans, key=lambda span: span.start_time_unix_nano)
    ]


WAYS = pytest.mark.parametrize(
    ("trace", "parent"), [(CLIENT, CALL), (ENGINE, "")], ids=["in its trace", "by its request id"]
)


@WAYS
def test_an_engine_that_speaks_after_the_call_is_drawn(trace: str, parent: str) -> None:
    """While the phases wait to be sent: only the joined ones are, and the page names their sources."""
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, *the_client())
            eventually(lambda: summary_of(collected) is not None)
            assert not has_prefill(collected)
            send(collected, the_engine(trace, parent))
            eventually(lambda: has_prefill(collected))
            page = collected.pages.ask("/tasks/t").text
            (run,) = [
                row
                for row in collected.pages.ask("/api/v1/tasks/t/waterfall").document["spans"]
                if row["kind"] == "model"
            ]
            summary = summary_of(collected)
        assert drawn(receiver) == JOINED
    assert summary is not None
    assert (summary.calls, summary.complete, summary.wall_ns) == (1, True, 1_500 * MS)
    assert summary.evidence_ns["prefill"] == {"joined": 150 * MS}
    assert [(p["name"], p["ns"] / MS, p["source"]) for p in run["phases"]] == JOINED
    for drawn_so in ("queue 50.0 ms (derived)", "prefill 150 ms (joined)", "generation 1.28 s (observed)"):
        assert drawn_so in page


@WAYS
def test_an_engine_that_was_there_first_is_drawn(trace: str, parent: str) -> None:
    """It waits in the store for its call."""
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, the_engine(trace, parent), *the_client())
            eventually(lambda: has_prefill(collected))
            collected.collector.up_to_date()
            assert collected.store.task_ids("") == ["t"]
        assert drawn(receiver) == JOINED


def test_an_engine_that_speaks_after_the_phases_were_sent_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call's phases are sent once more, and named as later; the same phase keeps its span id."""
    monkeypatch.setattr(collecting_module, "PhaseExporter", functools.partial(PhaseExporter, settle_s=0.0))
    with CollectorServer() as receiver:
        with collecting(phase_spans_to=receiver.url) as collected:
            send(collected, *the_client())
            receiver.wait_for(lambda: len(receiver.spans) == 2)
            before = {span.name: span.span_id for span in receiver.spans}
            assert before.keys() == {"wait", "generation"}
            send(collected, the_engine(CLIENT, CALL))
            receiver.wait_for(lambda: len(receiver.spans) == 2 + len(JOINED))
        again = receiver.spans[2:]
        assert [span.name for span in again] == [f"{name} (later)" for name, _, _ in JOINED]
        assert {span.name: span.span_id for span in again}["generation (later)"] == before["generation"]
