"""Tasks of odd shapes and any size, for what must not grow faster than about n log n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.spans import call, cost, failed, http, reported, span, step, task, tool, usage

from agentprof.model import Evidence, Span

Shape = Callable[[int], list[Span]]


def overlapping_siblings(n: int) -> list[Span]:
    """All calls below the task, each running over thousands of others."""
    return [_task(n), *(_call(i, i, i + 2 * n + i % 7) for i in range(n))]


def calls_in_a_row(n: int) -> list[Span]:
    """A loop of calls."""
    return [_task(n), *(_call(i, 4 * i, 4 * i + 3) for i in range(n))]


def sibling_steps(n: int) -> list[Span]:
    """Steps below the task, each with a name of its own."""
    return [_task(n), *(step(f"s{i}", i, i + n, "root") for i in range(n))]


def a_chain_of_steps(n: int) -> list[Span]:
    """Each step inside the one before."""
    return [_task(n), *(step(f"s{i}", i, 4 * n - i, _above("s", i)) for i in range(n))]


def a_chain_of_calls(n: int) -> list[Span]:
    """Each model span inside the one before, of two instrumentations in turn, all with one response id."""
    return [
        _task(n),
        *(call(f"c{i}", i, 4 * n - i, _above("c", i), response_id="r", scope=_scope(i)) for i in range(n)),
    ]


def a_chain_of_agents(n: int) -> list[Span]:
    """Each agent asks a model and starts the next."""
    agents = [span(f"a{i}", 2 * i, 4 * n - i, _above("a", i), kind="agent") for i in range(n)]
    return [_task(n), *agents, *(_call(i, 2 * i, 2 * i + 1, f"a{i}") for i in range(n))]


def a_chain_of_tasks(n: int) -> list[Span]:
    """Each task inside the one before, in one trace."""
    return [_task(n), *(task(f"t{i}", i, 4 * n - i, _above("t", i), id=f"t{i}") for i in range(n))]


def a_chain_of_traces(n: int) -> list[Span]:
    """Each task in a trace of its own, started by the one before."""
    return [
        _task(n),
        *(
            task(f"t{i}", i, 4 * n - i, id=f"t{i}", parent_id=f"t{i - 1}" if i else "t", trace_id=f"{i:032x}")
            for i in range(n)
        ),
    ]


def a_task_of_many_traces(n: int) -> list[Span]:
    """One task that goes on in trace after trace."""
    return [task(f"r{i}", 4 * i, 4 * i + 3, trace_id=f"{i:032x}") for i in range(n)]


def a_chain_beside_siblings(n: int) -> list[Span]:
    """Each step inside the one before, running all along beside short ones."""
    chain = [step(f"s{i}", i, 12 * n - i, _above("s", i)) for i in range(n)]
    return [task("root", 0, 10 * n), *chain, *(_call(i, n + 8 * i, n + 8 * i + 3) for i in range(n))]


def a_call_of_many_attempts(n: int) -> list[Span]:
    """Attempt after attempt, with a tool that runs now and then meanwhile."""
    attempts = tuple(failed(5, 5) for _ in range(n))
    tools = [tool(f"t{i}", 10 * i + 2, 10 * i + 4, "c") for i in range(n)]
    return [task("root", 0, 11 * n), call("c", 0, 11 * n, "root", failed_attempts=attempts), *tools]


def tools_side_by_side(n: int) -> list[Span]:
    """All tools of one answer at once, and a request that carries all their results."""
    names = tuple(f"tool {i}" for i in range(n))
    ids = tuple(f"{i:x}" for i in range(n))
    return [
        _task(n),
        call("asks", 0, 1, "root", tool_calls=names, tool_call_ids=ids),
        *(tool(f"t{i}", 1, 2 + i, "root", title=names[i], cost=cost("0.1")) for i in range(n)),
        call("tells", 3 * n, 4 * n, "root", tool_result_ids=tuple(f"{one}=" for one in ids)),
    ]


def tools_that_nothing_marks(n: int) -> list[Span]:
    """One answer asks for all, and a request at a time carries a result."""
    names = tuple(f"tool {i}" for i in range(n))
    ids = tuple(f"{i:x}" for i in range(n))
    requests = [_call(i, 2 * i + 2, 2 * i + 3, tool_result_ids=(f"{ids[i]}=",)) for i in range(n)]
    return [_task(n), call("asks", 0, 1, "root", tool_calls=names, tool_call_ids=ids), *requests]


def tools_in_turn(n: int) -> list[Span]:
    """Each request carries a result and asks for the next; some of the tools are marked."""
    turns = [
        _call(i, 4 * i, 4 * i + 1, tool_calls=("t",), tool_call_ids=(f"{i}",), tool_result_ids=(f"{i - 1}=",))
        for i in range(n)
    ]
    return [
        _task(n),
        *turns,
        *(tool(f"t{i}", 4 * i + 2, 4 * i + 3, "root", title="t") for i in range(0, n, 2)),
    ]


def a_chain_of_tools(n: int) -> list[Span]:
    """Each tool span inside the one before."""
    return [_task(n), *(tool(f"t{i}", i, 4 * n - i, _above("t", i), cost=cost("1")) for i in range(n))]


def two_reports_of_each_call(n: int) -> list[Span]:
    """Calls at once that look alike, each seen by two instrumentations."""
    return [
        _task(n),
        *(
            call(f"{scope}{i}", i, i + n, "root", scope=scope, usage=usage(5, 5))
            for i in range(n)
            for scope in ("one", "two")
        ),
    ]


def two_chains_of_reports(n: int) -> list[Span]:
    """Steps inside steps, on two sides, and below each side reports of the same calls."""
    sides = [
        step(f"{side}{i}", i, 9 * n - i, f"{side}{i - 1}" if i else "root")
        for side in ("one", "two")
        for i in range(n)
    ]
    calls = [
        call(f"{side} {i}", 2 * n + i, 2 * n + i + 5, f"{side}{n - 1}", scope=side, usage=usage(5, 5))
        for side in ("one", "two")
        for i in range(n)
    ]
    return [task("root", 0, 9 * n), *sides, *calls]


def evidence_of_one_call(n: int) -> list[Span]:
    """Exchanges, phases and stages of an engine below one call."""
    given = Evidence(role="phase", phases={"queue": reported(1)})
    stage = Evidence(role="engine", stage="chunk")
    return [
        _task(n),
        _call(0, 0, 4 * n),
        *(http(f"h{i}", 3 * i, 3 * i + 1, "c0") for i in range(n)),
        *(span(f"p{i}", 3 * i, 3 * i + 1, "c0", kind="evidence", evidence=given) for i in range(n)),
        *(
            span(f"e{i}", 3 * i, 3 * i + 1, "c0", kind="evidence", evidence=stage, engine="x")
            for i in range(n)
        ),
    ]


def a_chain_of_engines(n: int) -> list[Span]:
    """Each engine's span inside the one before, all with the id of one call."""
    spans = [
        call(f"e{i}", i, 4 * n - i, _above("e", i), engine="vllm", server_side=True, request_id="request-1")
        for i in range(n)
    ]
    return [_task(n), *spans, _call(0, 1, 2, response_id="request-1")]


def a_call_again_and_again(n: int) -> list[Span]:
    """The same request, with every other one failing, some at once."""
    return [_task(n), *(_call(i, 3 * i, 3 * i + 4, fingerprint="k-1", error=i % 2 == 0) for i in range(n))]


def copies(n: int) -> list[Span]:
    """One span, delivered again and again, never the same."""
    return [_task(n), *(step("s", 1, 2, "root", attributes_count=3, error_type=f"{i}") for i in range(n))]


def open_spans(n: int) -> list[Span]:
    """None of a chain ended."""
    return [_task(n), *(step(f"s{i}", i, None, _above("s", i)) for i in range(n))]


def longer_and_longer(n: int) -> list[Span]:
    """Each step outlasts the one above."""
    return [_task(n), *(step(f"s{i}", n - i, n + i + 1, _above("s", i)) for i in range(n))]


def a_circle(n: int) -> list[Span]:
    """Each span is below the other."""
    return [_task(n), *(step(f"s{i}", i, 2 * n, f"s{(i + 1) % n}") for i in range(n))]


SHAPES: tuple[Shape, ...] = (
    overlapping_siblings,
    calls_in_a_row,
    sibling_steps,
    a_chain_of_steps,
    a_chain_of_calls,
    a_chain_of_agents,
    a_chain_of_tasks,
    a_chain_of_traces,
    a_task_of_many_traces,
    a_chain_beside_siblings,
    a_call_of_many_attempts,
    tools_side_by_side,
    tools_that_nothing_marks,
    tools_in_turn,
    a_chain_of_tools,
    two_reports_of_each_call,
    two_chains_of_reports,
    evidence_of_one_call,
    a_chain_of_engines,
    a_call_again_and_again,
    copies,
    open_spans,
    longer_and_longer,
    a_circle,
)


def _task(n: int) -> Span:
    return task("root", 0, 4 * n)


def _above(letter: str, i: int) -> str:
    return f"{letter}{i - 1}" if i else "root"


def _scope(i: int) -> str:
    return ("one", "two")[i % 2]


def _call(i: int, start: int, end: int, parent: str = "root", **fields: Any) -> Span:
    return call(f"c{i}", start, end, parent, usage=usage(10, 5), **{"response_id": f"r{i}", **fields})
