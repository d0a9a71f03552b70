"""Time between an answer that asks for tools and the request with their results: whose it is, and whose not."""

import random
from typing import Any

from support.spans import TASK, call, span, step, task, tool

from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.rollup.waterfall import waterfall
from agentprof.summary import TaskSummary


def asks(span_id: str, start: int, end: int, parent: str = "root", **ids: str) -> Span:
    """An answer that asks for tools: `name=id`."""
    return call(
        span_id,
        start,
        end,
        parent,
        tool_calls=tuple(name.rstrip("_") for name in ids),
        tool_call_ids=tuple(ids.values()),
    )


def sends(span_id: str, start: int, end: int, *results: str, parent: str = "root", **more: Any) -> Span:
    """A request that carries results."""
    return call(span_id, start, end, parent, tool_result_ids=results, **more)


def summed(*spans: Span) -> TaskSummary:
    """The summary of a task from 0 to 100 with these spans, in any order."""
    found = roll_up(TASK, [task("root", 0, 100), *spans])
    shuffled = [task("root", 0, 100), *spans]
    random.Random(len(spans)).shuffle(shuffled)
    assert roll_up(TASK, shuffled) == found
    assert sum(found.timeline_ns.values()) == found.wall_ns
    assert sum(found.evidence_ns["tool"].values()) == found.timeline_ns["tool"]
    assert sum(row.self.busy_ns for row in found.nodes) == sum(found.busy_ns.values())
    assert sum(row.self.path_ns for row in found.nodes) == found.wall_ns
    return found


def inferred(summary: TaskSummary) -> int | None:
    return summary.evidence_ns["tool"].get("inferred")


def own(summary: TaskSummary) -> dict[str, int]:
    """Time on the timeline of each row's own, by its path without the task."""
    return {"/".join(row.path[1:]): row.self.path_ns for row in summary.nodes}


def test_the_time_until_the_results_are_sent_is_tool_time() -> None:
    """With the name the answer asked for, not as a run; before and after it the task is at work itself."""
    found = summed(asks("a", 10, 20, look="1"), sends("b", 50, 90, "1"))
    assert found.evidence_ns["tool"] == {"inferred": 30}
    assert (found.timeline_ns["tool"], found.timeline_ns["model"], found.timeline_ns["other"]) == (30, 50, 20)
    assert own(found) == {"": 20, "look": 30, "m": 50}
    row = next(row for row in found.nodes if row.path[-1] == "look")
    assert (row.kind, row.runs, row.errors, row.inferred_ns) == ("tool", 0, 0, 30)
    look = found.tools["look"]
    assert (look.runs, look.errors, look.busy_ns, look.inferred_ns, look.cost_usd) == (0, 0, 30, 30, None)
    assert (found.retries["tool"], found.repeats["tool"], found.errors["tool"]) == (0, 0, 0)
    assert found.overlap_ns == {"model": 50, "tool": 30, "both": 0, "neither": 20}
    assert found.busy_ns["tool"] == 30


def test_results_that_are_never_sent_or_of_other_calls_say_nothing() -> None:
    """What is not known to be a tool's stays what it is."""
    for spans in (
        [asks("a", 10, 20, look="1"), call("b", 50, 90, "root")],
        [asks("a", 10, 20, look="1"), sends("b", 50, 90, "2")],
        [asks("a", 10, 60, look="1"), sends("b", 50, 90, "1")],
        [call("a", 10, 20, "root"), sends("b", 50, 90, "1")],
        [asks("a", 10, 20, look="1")],
    ):
        found = summed(*spans)
        assert inferred(found) is None
        assert found.timeline_ns["tool"] == 0
        assert found.tools == {}


def test_what_is_marked_keeps_its_time() -> None:
    """A step, a wait for a person, another call and a tool between are not what was asked for."""
    found = summed(
        asks("a", 0, 10, look="1", find="2"),
        step("parse", 15, 25, "root"),
        span("confirm", 30, 40, "root", kind="human"),
        call("judge", 45, 55, "root", model="other"),
        tool("find", 60, 70, "root"),
        sends("b", 80, 90, "1", "2"),
    )
    assert found.evidence_ns["tool"] == {"inferred": 30, "observed": 10}
    assert (found.timeline_ns["step"], found.timeline_ns["human"], found.timeline_ns["model"]) == (10, 10, 30)
    assert own(found)["look"] == 30
    assert found.timeline_ns["other"] == 10
    assert (found.tools["find"].runs, found.tools["find"].inferred_ns) == (1, 0)


def test_where_every_tool_is_marked_nothing_is_inferred() -> None:
    """By name or, where the names differ, by number: what is left is the loop's own work."""
    between = [tool("look", 25, 40, "root"), tool("find", 42, 55, "root")]
    found = summed(asks("a", 0, 20, look="1", find="2"), *between, sends("b", 60, 90, "1", "2"))
    assert found.evidence_ns["tool"] == {"observed": 28}
    found = summed(asks("a", 0, 20, mcp__x="1", mcp__y="2"), *between, sends("b", 60, 90, "1", "2"))
    assert found.evidence_ns["tool"] == {"observed": 28}
    inner = step("tools", 22, 58, "root"), tool("look", 25, 40, "tools")
    found = summed(asks("a", 0, 20, look="1"), *inner, sends("b", 60, 90, "1"))
    assert found.evidence_ns["tool"] == {"observed": 15}
    assert found.timeline_ns["step"] == 21


def test_a_marked_tool_of_an_earlier_or_later_turn_is_another_run() -> None:
    """Only what begins after the answer did, and before the results are sent, can be what it asked for."""
    earlier = tool("x1", 0, 15, "root", title="look")
    later = tool("x2", 60, 70, "root", title="look")
    found = summed(earlier, asks("a", 20, 30, look="1"), sends("b", 50, 60, "1"), later)
    assert found.evidence_ns["tool"] == {"observed": 25, "inferred": 20}


def test_several_at_once_are_one_stretch_with_all_names() -> None:
    """Each name once, by the alphabet, a number for those beyond some."""
    found = summed(asks("a", 0, 10, find="1", look="2", look_="3"), sends("b", 50, 90, "1", "2", "3"))
    assert own(found)["find + look"] == 40
    assert inferred(found) == 40
    ids = {name: name for name in "gfedcba"}
    found = summed(asks("a", 0, 10, **ids), sends("b", 50, 90, *ids))
    assert own(found)["a + b + c + 4 more"] == 40


def test_results_sent_in_two_requests() -> None:
    """Until the first both ran; what its answer leaves of the time until the second is the other's."""
    found = summed(
        asks("a", 0, 10, look="1", find="2"), sends("b", 40, 50, "1"), sends("c", 70, 80, "1", "2")
    )
    assert own(found) == {"": 20, "find + look": 30, "find": 20, "m": 30}


def test_the_first_request_with_a_result_ends_its_tool() -> None:
    """Those after it, of the same conversation or of a retry, repeat what is known."""
    found = summed(asks("a", 0, 10, look="1"), sends("b", 40, 50, "1", error=True), sends("c", 70, 80, "1"))
    assert inferred(found) == 30


def test_ids_that_a_server_gives_out_again() -> None:
    """A result belongs to the latest answer of its own step or agent."""
    agents = [span(name, start, 100, "root", kind="agent") for name, start in (("first", 0), ("second", 5))]
    found = summed(
        *agents,
        asks("a1", 0, 10, "first", look="call_0"),
        asks("a2", 5, 20, "second", find="call_0"),
        sends("b1", 30, 40, "call_0", parent="first"),
        asks("c1", 40, 50, "first", again="call_0"),
        sends("b2", 70, 100, "call_0", parent="second"),
        sends("d1", 80, 100, "call_0", parent="first"),
    )
    rows = own(found)
    assert {name.partition("/")[2] for name, ns in rows.items() if name.startswith("first/") and ns} <= {
        "look",
        "again",
        "m",
    }
    assert "first/find" not in rows
    assert "second/look" not in rows


def test_results_known_by_names_alone() -> None:
    """In order; a made-up id gives way to the name where the answer had none."""
    found = summed(
        call("a", 0, 10, "root", tool_calls=("look", "find")), sends("b", 40, 90, "=find", "=look")
    )
    assert own(found)["find + look"] == 30
    found = summed(call("a", 0, 10, "root", tool_calls=("look",)), sends("b", 40, 90, "ff00=look"))
    assert own(found)["look"] == 30
    found = summed(asks("a", 0, 10, look="1"), sends("b", 40, 90, "=look"))
    assert own(found)["look"] == 30
    found = summed(asks("a", 0, 10, look="1"), sends("b", 40, 90, "ff00=look"))
    assert inferred(found) is None


def test_a_loop_inside_a_step_or_agent_has_tool_time() -> None:
    """The mark around a loop says who asked, not what was done between."""
    loop = [
        asks("a", 20, 30, "inner", look="1"),
        sends("b", 50, 60, "1", parent="inner"),
    ]
    for around in (step("inner", 10, 90, "root"), span("inner", 10, 90, "root", kind="agent")):
        found = summed(around, *loop)
        assert own(found) == {"": 20, "inner": 40, "inner/look": 20, "inner/m": 20}
        assert found.timeline_ns["step"] == 40


def test_a_mark_that_holds_the_answer_but_not_the_request_is_no_tool() -> None:
    """Nor one that begins between and holds the request, nor a tool or a wait around all of it."""
    found = summed(step("plan", 0, 40, "root"), asks("a", 0, 20, "plan", look="1"), sends("b", 50, 60, "1"))
    assert (found.timeline_ns["step"], inferred(found)) == (20, 10)
    found = summed(
        asks("a", 0, 20, look="1"), step("say", 30, 90, "root"), sends("b", 50, 60, "1", parent="say")
    )
    assert (found.timeline_ns["step"], inferred(found)) == (50, 10)
    for kind in ("tool", "human"):
        outer = span("outer", 0, 90, "root", kind=kind)
        found = summed(outer, asks("a", 10, 20, "outer", look="1"), sends("b", 50, 60, "1", parent="outer"))
        assert inferred(found) is None


def test_agents_that_take_turns_in_one_task() -> None:
    """While one waits for its tool the other's call has the time; of two tools the one that began last."""
    found = summed(
        asks("a1", 0, 10, look="1"),
        asks("a2", 20, 30, find="2"),
        sends("b1", 50, 60, "1"),
        sends("b2", 80, 90, "2"),
    )
    assert own(found) == {"": 10, "look": 10, "find": 40, "m": 40}


def test_an_agent_that_runs_as_a_tool_of_another() -> None:
    """Its own tools have their time, what is left of it is that tool's."""
    found = summed(
        asks("outer", 0, 10, delegate="1"),
        asks("inner", 20, 30, look="2"),
        sends("inner2", 50, 60, "2"),
        sends("outer2", 80, 90, "1"),
    )
    assert own(found) == {"": 10, "delegate": 30, "look": 20, "m": 40}
    found = summed(
        asks("outer", 0, 10, delegate="1"),
        asks("inner", 20, 30, look="2"),
        tool("look", 35, 45, "root"),
        sends("inner2", 50, 60, "2"),
        sends("outer2", 80, 90, "1"),
    )
    assert found.evidence_ns["tool"] == {"inferred": 40, "observed": 10}
    assert own(found) == {"": 10, "delegate": 40, "look": 10, "m": 40}


def test_a_call_seen_by_two_instrumentations_has_its_tools_once() -> None:
    """The other's span, around it or beside it, knows no ids and changes nothing."""
    mine = [asks("a", 10, 20, look="1"), sends("b", 50, 90, "1")]
    alone = summed(*mine)
    beside = [call(f"{name}2", s, e, "root", scope="other") for name, s, e in (("a", 10, 20), ("b", 50, 90))]
    around = [
        call("a2", 9, 21, "root", scope="other"),
        asks("a", 10, 20, "a2", look="1"),
        call("b2", 49, 91, "root", scope="other"),
        sends("b", 50, 90, "1", parent="b2"),
    ]
    assert inferred(summed(*mine, *beside)) == inferred(alone) == 30
    assert inferred(summed(*around)) == 28  # the wrappers' own time is not the task's


def test_clocks_that_disagree_and_times_outside_the_task() -> None:
    """Nothing outside the wall, and nothing before it began."""
    found = summed(asks("a", -50, -20, look="1"), sends("b", 30, 60, "1"))
    assert inferred(found) == 30
    found = summed(asks("a", 60, 80, look="1"), sends("b", 120, 160, "1"))
    assert inferred(found) == 20


def test_the_waterfall_draws_inferred_stretches() -> None:
    """As rows of tools under the span whose time it was, among its other children."""
    spans = [task("root", 0, 100), asks("a", 10, 20, look="1"), sends("b", 50, 90, "1")]
    rows = waterfall(TASK, spans).rows
    assert [(row.kind, row.name, row.start_ns, row.duration_ns, row.inferred) for row in rows] == [
        ("task", "root", 0, 100, False),
        ("model", "m", 10, 10, False),
        ("tool", "look", 20, 30, True),
        ("model", "m", 50, 40, False),
    ]
    assert sum(row.path_ns for row in rows) == 100
    assert rows[2].depth == 1


def test_many_alike_ids_are_no_burden() -> None:
    """Thousands of answers that never get a result, and as many marked tools, are added up in no time."""
    spans = [task("root", 0, 10**6)]
    for n in range(3000):
        spans.append(asks(f"a{n}", n, n + 1, look="same"))
        spans.append(tool(f"x{n}", n, 10**5, "root"))
        spans.append(sends(f"b{n}", 5000 + n, 5001 + n, "same"))
    found = roll_up(TASK, spans)
    assert found.evidence_ns["tool"].get("inferred") is None
