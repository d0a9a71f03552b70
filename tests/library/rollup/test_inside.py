"""What other instrumentations report from inside a call of agentprof: attempts of an SDK that traces itself, say."""

from __future__ import annotations

from typing import Any

import pytest
from support.spans import TASK, call, failed, http, observed, reported, span, step, task, tool, usage

from agentprof.model import Span
from agentprof.rollup import plain_tree, roll_up
from agentprof.summary import TaskSummary

MS = 1_000_000
ROOT = task("root", 0, 200 * MS)
TRIED = {
    "attempts": 3,
    "failed_attempts": (failed(10 * MS, 20 * MS), failed(5 * MS, 15 * MS, "503")),
    "phases": {"wait": observed(30 * MS)},
}


def own(**fields: Any) -> Span:
    """A call of ours: two attempts that failed, the pauses after them, and 50 ms of the last one."""
    known: dict[str, Any] = {"response_id": "r", "usage": usage(9, 4), **TRIED, **fields}
    return call("own", 10 * MS, 110 * MS, "root", scope="agentprof", **known)


def sdk(span_id: str, start: int, end: int, parent: str = "own", **fields: Any) -> Span:
    """A span of an SDK, with times in milliseconds."""
    return call(span_id, start * MS, end * MS, parent, scope="sdk", **fields)


def times(summary: TaskSummary) -> list[Any]:
    """All there are."""
    return [summary.wall_ns, summary.timeline_ns, summary.busy_ns, summary.overlap_ns, summary.evidence_ns]


@pytest.mark.parametrize("late", [0, 4, 6, 50])
def test_the_span_of_an_attempt_is_no_call(late: int) -> None:
    """However long after ours it ends; the call keeps its attempts and its time."""
    last = sdk("last", 60, 110 + late, response_id="r", usage=usage(9, 4))
    summary = roll_up(TASK, [ROOT, own(), last])
    assert (summary.calls, summary.attempts, summary.tokens["input"]) == (1, 3, 9)
    assert times(summary) == times(roll_up(TASK, [ROOT, own()]))
    assert summary.busy_ns["failed_attempt"] == 15 * MS
    assert summary.busy_ns["backoff"] == 35 * MS
    assert summary.warnings == []


def test_spans_of_attempts_that_failed_are_no_calls_and_no_errors() -> None:
    """They know nothing; the call had an answer."""
    tries = [sdk("one", 10, 20, error=True), sdk("two", 40, 45, error=True)]
    last = sdk("last", 60, 130, response_id="r", usage=usage(9, 4))
    summary = roll_up(TASK, [ROOT, own(), *tries, last])
    assert (summary.calls, summary.errors["call"], summary.warnings) == (1, 0, [])
    assert times(summary) == times(roll_up(TASK, [ROOT, own()]))


def test_a_call_learns_from_the_last_attempt_what_it_does_not_know() -> None:
    """Its own values stay; instants are counted from its own start."""
    one = sdk("one", 10, 20, response_id=None, provider="first")
    last = sdk(
        "last", 60, 110, response_id="r", usage=usage(8, 7), first_token_ns=30 * MS, provider="mistral_ai"
    )
    (node,) = plain_tree(TASK, [ROOT, own(usage=usage(9, None)), one, last]).of_kind("model")
    assert node.call is not None
    assert node.call.usage is not None
    assert (node.call.usage.input, node.call.usage.output) == (9, 7)
    assert (node.call.provider, node.call.first_token_ns) == ("mistral_ai", 80 * MS)
    assert (node.start, node.end) == (10 * MS, 110 * MS)


def test_an_engine_below_an_attempt_gives_its_times_to_the_call() -> None:
    """The request carries the context of the SDK's span."""
    phases = {"queue": reported(5 * MS), "prefill": reported(20 * MS)}

    def served(parent: str) -> list[Span]:
        engine = sdk("e", 70, 100, "h", server_side=True, phases=phases)
        return [ROOT, own(), http("h", 61 * MS, 109 * MS, parent), engine]

    last = sdk("last", 60, 110, response_id="r", usage=usage(9, 4))
    summary = roll_up(TASK, [*served("last"), last])
    assert (summary.calls, summary.timeline_ns["prefill"]) == (1, 20 * MS)
    assert times(summary) == times(roll_up(TASK, served("own")))


def test_reports_inside_each_other_are_one_call() -> None:
    """Two instrumentations inside ours; what hangs from them hangs from the call then."""
    outer = call("outer", 50 * MS, 120 * MS, "own", scope="two", usage=usage(9, 4))
    last = sdk("last", 60, 115, "outer", response_id="r")
    tree = plain_tree(TASK, [ROOT, own(), outer, last, span("s", 70 * MS, 80 * MS, "last")])
    (node,) = tree.of_kind("model")
    assert [child.title for child in node.children] == ["s"]


def test_a_request_to_an_agent_of_the_provider_is_no_agent() -> None:
    """An SDK calls the span of an attempt so; one with spans below ran where they were made."""
    asked = span("asks", 60 * MS, 130 * MS, "own", kind="agent", scope="sdk")
    assert [row.kind for row in roll_up(TASK, [ROOT, own(), asked]).nodes] == ["task", "model"]
    inner = sdk("inner", 70, 80, "asks", response_id="r2", usage=usage(1, 1))
    assert roll_up(TASK, [ROOT, own(), asked, inner]).calls == 2


def test_other_calls_below_ours_stay_calls() -> None:
    """Of another id or other counts; several where ours had no answer; of tools; of services."""
    twice = [sdk(f"c{i}", 20 + i, 40, response_id=f"r{i}", usage=usage(1, 1)) for i in range(2)]
    assert roll_up(TASK, [ROOT, own(), *twice]).calls == 3
    assert roll_up(TASK, [ROOT, own(response_id=None, usage=None), *twice]).calls == 2
    nameless = [sdk(f"c{i}", 20 + i, 40, usage=usage(1, 1)) for i in range(2)]
    assert roll_up(TASK, [ROOT, own(response_id=None, usage=None), *nameless]).calls == 2
    below = sdk("inner", 30, 40, "x", usage=usage(1, 1))
    assert roll_up(TASK, [ROOT, own(), tool("x", 20 * MS, 50 * MS, "own"), below]).calls == 2
    service = span("svc", 20 * MS, 50 * MS, "own", server_side=True)
    again = sdk("c", 30, 40, "svc", response_id="r9", usage=usage(1, 1))
    assert roll_up(TASK, [ROOT, own(), service, again]).calls == 2


def test_an_attempt_whose_own_call_is_missing_is_the_call() -> None:
    """It is the only witness."""
    summary = roll_up(
        TASK, [ROOT, step("s", 0, 150 * MS, "root"), sdk("last", 60, 110, "s", usage=usage(9, 4))]
    )
    assert (summary.calls, summary.attempts, summary.tokens["input"]) == (1, None, 9)
