"""Generated tasks: trees of spans as hypothesis strategies, small times so that ties are common."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from support.spans import TASK, call, cost, failed, http, span, step, task, tool, usage

from agentprof.model import NO_ID, SOURCES, Call, Energy, Phase, Span, TaskMark

TRACES = ("0" * 31 + "1", "0" * 31 + "2")
LATEST = 40

tokens = st.none() | st.integers(0, 50)
statuses = st.sampled_from(["429", "500", "timeout", "connection", "cut"])
tool_names = st.sampled_from(["s1", "s2", "look"])
results = st.sampled_from(["1", "2", "3", "=look", "3=s1"])


@st.composite
def tools_asked(draw: st.DrawFn) -> dict[str, Any]:
    """Tools an answer asks for, with ids that are given out again, with none, or not told at all."""
    names = draw(st.lists(tool_names, max_size=3))
    ids = draw(st.lists(st.sampled_from(["1", "2", "3", NO_ID]), min_size=len(names), max_size=len(names)))
    return {"tool_calls": tuple(names), "tool_call_ids": tuple(ids) if draw(st.booleans()) else ()}


energies = st.none() | st.builds(
    lambda low, more, source: Energy(
        low_uj=low, high_uj=low + more, source=source, boundary="gpu", covers="tokens", basis="1"
    ),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from(["config", "ecologits"]),
)


@st.composite
def calls_known(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a call: usage, price, attempts and phases, any of them missing, fitting or not."""
    attempts = draw(st.lists(st.builds(failed, st.integers(0, 8), st.integers(0, 4), statuses), max_size=2))
    phases = draw(
        st.dictionaries(
            st.sampled_from(
                ["queue", "prefill", "wait", "generation", "model", "connect", "network", "client"]
            ),
            st.builds(
                lambda ns, source: Phase(ns=ns, source=source),
                st.integers(0, 15),
                st.sampled_from(SOURCES[:4]),
            ),
            max_size=4,
        )
    )
    seen = draw(st.none() | st.integers(0, LATEST))
    return {
        "usage": draw(st.none() | st.builds(usage, tokens, tokens, reasoning=tokens, cache_read=tokens)),
        "cost": draw(
            st.none()
            | st.just(cost(None, "unknown_model"))
            | st.decimals(0, 1, places=9).map(lambda amount: cost(str(amount)))
        ),
        "energy": draw(energies),
        "server": draw(st.sampled_from([None, "gpu1", "GPU1:1"])),
        "attempts": draw(st.sampled_from([None, len(attempts) + 1, len(attempts) or 1])),
        "failed_attempts": tuple(attempts),
        "phases": phases,
        "queue_starts_late": draw(st.booleans()),
        "first_token_ns": seen,
        "first_content_ns": seen,
        "stream_end": draw(st.sampled_from([None, "complete", "abandoned", "truncated"])),
        "response_id": draw(st.sampled_from([None, "r1", "r2", "r3"])),
        "model": draw(st.sampled_from(["m1", "m2"])),
        "fingerprint": draw(st.sampled_from([None, "f1", "f2", "k1-f1", "k2-f1"])),
        **draw(tools_asked()),
        "tool_result_ids": tuple(draw(st.lists(results, max_size=3))),
    }


def _model(draw: st.DrawFn, args: tuple[Any, ...], common: dict[str, Any]) -> Span:
    return call(
        *args, **draw(calls_known()), server_side=draw(st.sampled_from([False] * 4 + [True])), **common
    )


def _tool(draw: st.DrawFn, args: tuple[Any, ...], common: dict[str, Any]) -> Span:
    given = draw(st.none() | st.just(Decimal("0.01")))
    same = draw(st.sampled_from([None, "f1", "f2"]))
    return tool(*args, cost=cost(str(given)) if given is not None else None, fingerprint=same, **common)


def _sub_task(draw: st.DrawFn, args: tuple[Any, ...], common: dict[str, Any]) -> Span:
    common.pop("task")
    name = args[0]
    return task(
        *args, id=f"sub-{name}", parent_id=TASK, outcome=draw(st.sampled_from([None, "failure"])), **common
    )


def _plain(
    make: Callable[..., Span], **fields: Any
) -> Callable[[st.DrawFn, tuple[Any, ...], dict[str, Any]], Span]:
    return lambda draw, args, common: make(*args, **fields, **common)


MAKERS = (
    _model,
    _model,
    _tool,
    _plain(step),
    _plain(span, kind="agent"),
    _plain(span),
    _plain(span, kind="human"),
    _plain(http),
    _sub_task,
)


@st.composite
def task_spans(draw: st.DrawFn, max_spans: int = 14) -> list[Span]:
    """The spans of one task: nested and parallel, outside their parents, with missing parents, over two
    traces, with sub-tasks, open spans, spans of zero length and several instrumentations."""
    spans: list[Span] = []
    if draw(st.booleans()):
        outcome = draw(st.sampled_from([None, "success", "failure"]))
        spans.append(task("root", 5, draw(st.integers(5, LATEST)), outcome=outcome, trace_id=TRACES[0]))
    for i in range(draw(st.integers(0 if spans else 1, max_spans))):
        start = draw(st.integers(0, LATEST))
        end = draw(st.none() | st.integers(start, LATEST) | st.integers(start, LATEST))
        parent = draw(
            st.sampled_from([None, "gone", *[s.span_id for s in spans], *[s.span_id for s in spans]])
        )
        common = {
            "trace_id": draw(st.sampled_from(TRACES)),
            "error": draw(st.booleans()),
            "scope": draw(st.sampled_from(["agentprof", "other", "third"])),
            "task": TaskMark(id=TASK),
        }
        # Something of the task itself comes first: a sub-task alone makes none of the task above it.
        make = draw(st.sampled_from(MAKERS if spans else MAKERS[:-1]))
        spans.append(make(draw, (f"s{i}", start, end, parent), common))
    return spans


@st.composite
def agent_loops(draw: st.DrawFn) -> list[Span]:
    """Agents that call tools in turn, at once with others, with marks of any kind between, some in steps of
    their own; ids of calls may be alike, results may come late, twice or never."""
    mark = TaskMark(id=TASK)
    spans = [task("root", 0, 10 * LATEST)]
    for agent in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, LATEST))
        owner = draw(st.sampled_from(["root", f"g{agent}"]))
        turns: list[Span] = []
        waiting: tuple[str, ...] = ()
        for turn in range(draw(st.integers(1, 4))):
            end = at + draw(st.integers(1, 9))
            names = tuple(draw(st.lists(tool_names, max_size=2)))
            ids = tuple(
                draw(st.sampled_from(["1", f"{agent}-{turn}-{place}"])) for place in range(len(names))
            )
            turns.append(
                call(
                    f"c{agent}-{turn}",
                    at,
                    end,
                    owner,
                    task=mark,
                    tool_calls=names,
                    tool_call_ids=ids,
                    tool_result_ids=waiting,
                )
            )
            waiting = draw(st.sampled_from([ids, ids, ids, (), waiting]))
            at = end + draw(st.integers(0, 20))
            for between in range(draw(st.integers(0, 2))):
                start = draw(st.integers(end, at))
                make = draw(st.sampled_from([step, tool, span]))
                name = f"x{agent}-{turn}-{between}"
                title = draw(tool_names)
                turns.append(make(name, start, draw(st.integers(start, at)), owner, task=mark, title=title))
        if owner != "root":
            kind = draw(st.sampled_from(["agent", "step", "human", "tool", "other"]))
            first = min(found.start_ns for found in turns)
            spans.append(span(owner, first, at, "root", kind=kind, task=mark))
        spans += turns
    return spans


def without_usage(found: Span) -> Span:
    """The same call, its usage and price unknown."""
    import msgspec

    known: Call = msgspec.structs.replace(found.call, usage=None, cost=None) if found.call else Call()
    return msgspec.structs.replace(found, call=known)


def without_results(found: Span) -> Span:
    """The same call, carrying no results of tools."""
    import msgspec

    if found.call is None:
        return found
    return msgspec.structs.replace(found, call=msgspec.structs.replace(found.call, tool_result_ids=()))
