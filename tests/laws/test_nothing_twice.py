"""Law 3: a call counts once however many instrumentations saw it, and whatever its parents repeat."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.spans import TASK, call, cost, span, step, task, tool, usage

from agentprof.model import Span
from agentprof.rollup import roll_up

_UNKNOWN_TO_OTHERS: dict[str, Any] = {"tool_calls": (), "tool_call_ids": (), "tool_result_ids": ()}
FIELDS = ("calls", "tokens", "cost_usd", "cost_complete", "calls_without_usage", "models")


@st.composite
def loops(draw: st.DrawFn) -> list[Span]:
    """An agent loop: calls with response ids, usage and prices, in turn or at once, tools between."""
    spans = [task("root", 0, 1_000_000_000), step("loop", 0, 900_000_000, "root")]
    for i in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, 700)) * 1_000_000
        length = draw(st.integers(20, 200)) * 1_000_000
        tokens = usage(draw(st.integers(1, 99)), draw(st.integers(1, 99)))
        asks = draw(st.booleans())
        spans.append(
            call(
                f"c{i}",
                start,
                start + length,
                "loop",
                model="m",
                response_id=f"resp-{i}",
                usage=tokens,
                cost=cost(f"0.00{i + 1}"),
                scope="one",
                tool_calls=("look",) if asks else (),
                tool_call_ids=(str(i),) if asks else (),
                tool_result_ids=tuple(str(before) for before in range(i)),
            )
        )
        if draw(st.booleans()):
            spans.append(tool(f"x{i}", start + length, start + length + 5, "loop"))
    return spans


def _seen_again(found: Span, how: str, number: int) -> list[Span]:
    """Another instrumentation's view of a call, with the call as it stands then."""
    margin = {"wrapper": 1_000_000, "beside": 2_000_000, "inside": -1_000_000, "bare": 1_000_000}[how]
    other = msgspec.structs.replace(
        found,
        span_id=f"{found.span_id}-{how}-{number}",
        scope=f"two-{number}",
        start_ns=found.start_ns - margin,
        end_ns=(found.end_ns or 0) + margin,
    )
    if how == "bare":
        # An instrumentation that knows neither usage nor response id.
        bare = (
            msgspec.structs.replace(found.call, usage=None, cost=None, response_id=None)
            if found.call
            else None
        )
        other = msgspec.structs.replace(other, call=bare)
    if how == "wrapper":
        return [other, msgspec.structs.replace(found, parent_id=other.span_id)]
    if how == "inside":
        return [found, msgspec.structs.replace(other, parent_id=found.span_id)]
    return [found, other]


@given(loops(), st.data())
def test_a_call_seen_by_several_instrumentations_counts_once(spans: list[Span], data: st.DataObject) -> None:
    """Around it, inside it, beside it, or knowing nothing but its time."""
    expected = roll_up(TASK, spans)
    seen: list[Span] = []
    for found in spans:
        if found.kind != "model" or not data.draw(st.booleans()):
            seen.append(found)
            continue
        seen.extend(
            _seen_again(found, data.draw(st.sampled_from(["wrapper", "beside", "inside", "bare"])), 1)
        )
    assert _counts(roll_up(TASK, seen)) == _counts(expected)


@given(loops(), st.data())
def test_a_call_seen_by_three_instrumentations_counts_once(spans: list[Span], data: st.DataObject) -> None:
    """Two views of one call below a third are not two calls."""
    expected = roll_up(TASK, spans)
    seen: list[Span] = []
    for found in spans:
        if found.kind != "model":
            seen.append(found)
            continue
        how = data.draw(st.sampled_from(["wrapper", "beside"]))
        *above, inner = _seen_again(found, how, 1) if how == "wrapper" else _seen_again(found, how, 1)[::-1]
        seen.extend([*above, *_seen_again(inner, data.draw(st.sampled_from(["beside", "bare"])), 2)])
    assert _counts(roll_up(TASK, seen)) == _counts(expected)


@given(loops(), st.integers(0, 3))
def test_what_agents_and_runs_repeat_is_not_added(spans: list[Span], levels: int) -> None:
    """Usage on agent, step and task spans, and on model spans around several calls, counts nowhere."""
    expected = roll_up(TASK, spans)
    known = call("whole", 0, 900_000_000, "root", usage=usage(10_000, 10_000), cost=cost("99")).call
    above: str = "root"
    extra: list[Span] = []
    for level in range(levels):
        extra.append(span(f"run{level}", 0, 900_000_000, above, kind="agent", call=known))
        above = f"run{level}"
    moved = [msgspec.structs.replace(s, parent_id=above) if s.span_id == "loop" else s for s in spans]
    assert _counts(roll_up(TASK, [*moved, *extra])) == _counts(expected)
    if expected.calls > 1:
        around = call("around", 0, 900_000_000, "root", usage=usage(10_000, 10_000), scope="framework")
        inside = [msgspec.structs.replace(s, parent_id="around") if s.span_id == "loop" else s for s in spans]
        assert _counts(roll_up(TASK, [*inside, around])) == _counts(expected)


@given(loops(), st.data())
def test_tool_time_of_a_call_seen_again_counts_once(spans: list[Span], data: st.DataObject) -> None:
    """Another view beside it, as long as the call itself, neither adds to the tools' time nor takes from it."""
    expected = roll_up(TASK, spans)
    seen = list(spans)
    for found in spans:
        if found.kind == "model" and data.draw(st.booleans()):
            known = msgspec.structs.replace(found.call, **_UNKNOWN_TO_OTHERS) if found.call else None
            seen.append(msgspec.structs.replace(found, span_id=f"{found.span_id}-2", scope="two", call=known))
    summary = roll_up(TASK, seen)
    assert summary.timeline_ns == expected.timeline_ns
    assert summary.evidence_ns == expected.evidence_ns
    assert summary.tools == expected.tools
    assert expected.timeline_ns["tool"] >= sum(row.inferred_ns for row in expected.tools.values())


@given(loops(), st.data())
def test_attempts_inside_a_call_of_ours_are_no_calls(spans: list[Span], data: st.DataObject) -> None:
    """An SDK that traces itself: a span an attempt, the last with the answer, whenever it ends."""
    own = [msgspec.structs.replace(s, scope="agentprof") if s.kind == "model" else s for s in spans]
    expected = roll_up(TASK, own)
    seen: list[Span] = []
    for found in own:
        seen.append(found)
        if found.kind != "model":
            continue
        at = found.start_ns
        for number in range(data.draw(st.integers(0, 2))):
            at += data.draw(st.integers(1, 9_000_000))
            failed = f"{found.span_id}-attempt-{number}"
            seen.append(call(failed, at, at + 1, found.span_id, model="m", scope="sdk", error=True))
        late = data.draw(st.integers(-1_000_000, 90_000_000))
        knows = msgspec.structs.replace(found.call, **_UNKNOWN_TO_OTHERS) if found.call else None
        last = {"span_id": f"{found.span_id}-last", "parent_id": found.span_id, "scope": "sdk", "call": knows}
        seen.append(
            msgspec.structs.replace(found, start_ns=at + 1, end_ns=(found.end_ns or 0) + late, **last)
        )
    summary = roll_up(TASK, data.draw(st.permutations(seen)))
    assert _counts(summary) == _counts(expected)
    assert (summary.timeline_ns, summary.busy_ns) == (expected.timeline_ns, expected.busy_ns)
    assert summary.errors == expected.errors


def _counts(summary: Any) -> dict[str, Any]:
    found = {name: getattr(summary, name) for name in FIELDS}
    found["models"] = {name: (row.calls, row.tokens, row.cost_usd) for name, row in summary.models.items()}
    return found
