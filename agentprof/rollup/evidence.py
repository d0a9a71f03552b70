"""Evidence spans leave the tree and give what they measured to the call above them."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from agentprof.model import Call, Phase
from agentprof.rollup.joins import hang_by_id
from agentprof.rollup.stages import staged
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.union import merged_phases

NESTING_NS: Final = 5_000_000
"""How much longer than the client's attempt an engine's phases may be, together, and still be believed: 5 ms."""

_BETWEEN = frozenset({"evidence", "other"})
"""What may stand between a call and the span of the engine that served it."""
_CUT = frozenset({"abandoned", "cancelled", "error", "truncated"})
"""Ends of a stream after which an engine may have gone on without its client."""
_BEFORE_TOKEN = frozenset({"network", "queue", "prefill", "wait"})


def give_evidence(tree: Tree) -> None:
    """Take phase, attempt, HTTP client and server-side spans out; durations of theirs go to their call.

    A server-side model span with no call above is the only witness of its call and stays. What an engine or a
    platform runs below its own model span is part of that span.
    """
    if not any(node.kind == "evidence" or node.span.server_side for node in tree.nodes):
        return
    hang_by_id(tree)
    call_above = _calls_above(tree)
    leaving = _leaving(tree, call_above)
    received: dict[int, list[Node]] = {}
    for node in leaving.values():
        call = call_above.get(id(node))
        if call is not None:
            received.setdefault(id(call), []).append(node)
    # From below, so that an engine's own span knows its stages before it is given on.
    for node in tree.bottom_up():
        givers = received.get(id(node))
        if node.call is not None and givers:
            node.call = _of_engine(node, givers) if node.span.engine else _of_client(node, givers)
    tree.drop(leaving.values())


def _leaving(tree: Tree, call_above: dict[int, Node]) -> dict[int, Node]:
    below, below_engines = _with_model_or_tool_below(tree)
    leaving: dict[int, Node] = {}
    for node in tree.top_down():
        call = call_above.get(id(node))
        if node.kind == "evidence":
            leaves = True
        elif not node.span.server_side or id(node) in below:
            leaves = False
        elif node.span.engine is not None:
            leaves = call is not None and (call.span.engine is None or id(call) in leaving)
        elif node.kind == "other":
            leaves = call is not None or id(node) not in below_engines
        else:
            leaves = node.kind == "model" and call is not None and id(node) not in below_engines
        if leaves:
            leaving[id(node)] = node
    return leaving


def _with_model_or_tool_below(tree: Tree) -> tuple[set[int], set[int]]:
    """Ids of the nodes that have a model or a tool span below them: of an application, and of an engine."""
    found: tuple[set[int], set[int]] = (set(), set())
    for node in tree.bottom_up():
        if node.parent is None:
            continue
        for engines, ids in enumerate(found):
            is_one = node.kind in ("model", "tool") and bool(node.span.engine) is bool(engines)
            if id(node) in ids or is_one:
                ids.add(id(node.parent))
    return found


def _calls_above(tree: Tree) -> dict[int, Node]:
    """The call each node may be evidence for, by its id: nothing but evidence and transparent spans between."""
    found: dict[int, Node] = {}
    for node in tree.top_down():
        above = node.parent
        if above is None:
            continue
        if above.kind == "model":
            found[id(node)] = above
        elif (above.kind in _BETWEEN or above.span.engine is not None) and id(above) in found:
            found[id(node)] = found[id(above)]
    return found


class _Given(NamedTuple):
    """What one request inside an engine, or one other witness, knows of a call."""

    phases: dict[str, Phase]
    queue_starts_late: bool = False
    faults: tuple[str, ...] = ()
    engine: str | None = None


def _of_engine(node: Node, givers: list[Node]) -> Call:
    """The engine's own span with the stages of its request, which say more than the span does."""
    call = node.call or Call()
    stages = staged(givers, node.start)
    phases = stages or call.phases
    faults = [fault for giver in givers for fault in _given(giver).faults]
    return msgspec.structs.replace(call, phases=phases, timing_faults=_once(call.timing_faults, faults))


def _of_client(node: Node, givers: list[Node]) -> Call:
    """The call with what its evidence knows. Of several engine spans the last to start served the answer.

    An earlier one adds only what no later one knows anything of: with prefill and decode on servers of their own
    each has a span.
    """
    call = node.call or Call()
    faults: list[str] = []
    phases: dict[str, Phase] = {}
    late = False
    engine: str | None = None
    for given in _in_turn(node, call, givers):
        faults += given.faults
        known = dict(given.phases)
        if given.engine is not None and call.stream_end in _CUT:
            known = {name: phase for name, phase in known.items() if name in _BEFORE_TOKEN}
        if given.engine is not None and not _fits(node, call, known):
            if not _served_a_failed_attempt(call, _together_ns(known)):
                faults.append(f"{given.engine} span: longer than the call")
            continue
        if known and not (given.engine and engine and phases.keys() & known.keys()):
            late = late or (given.queue_starts_late and "queue" not in phases)
            phases = {**known, **phases}
            engine = engine or given.engine
    both = _joined(call, phases, late=late)
    queue = both.get("queue")
    known_late = phases.get("queue") if late else call.phases.get("queue") if call.queue_starts_late else None
    served_by = engine or next((giver.span.engine for giver in givers if giver.span.engine), None)
    return msgspec.structs.replace(
        call,
        phases=both,
        queue_starts_late=queue is not None and queue == known_late,
        engine=call.engine or served_by,
        timing_faults=_once(call.timing_faults, faults),
    )


def _in_turn(node: Node, call: Call, givers: list[Node]) -> list[_Given]:
    """What is given, the last to start first; stages whose engine's own span is missing last."""
    found = [_given(giver) for giver in sorted(givers, key=lambda giver: giver.order, reverse=True)]
    if (alone := staged(givers, None)) is not None:
        engine = next(
            (g.span.engine for g in givers if g.span.evidence is not None and g.span.evidence.stage), None
        )
        found.append(_Given(alone, engine=engine))
    whole = [
        giver
        for giver in givers
        if giver.span.whole and (giver.parent is None or not giver.parent.span.whole)
    ]
    if len(whole) == 1 and node.span.end_ns is not None:
        found.append(_around(node, call, whole[0]))
    return found


def _given(node: Node) -> _Given:
    evidence, engine = node.span.evidence, node.span.engine
    if node.call is not None:
        call = node.call
        return _Given(call.phases, call.queue_starts_late, call.timing_faults, engine)
    if evidence is None:
        return _Given({}, engine=engine)
    return _Given(evidence.phases, evidence.queue_starts_late, evidence.timing_faults, engine)


def _around(node: Node, call: Call, served: Node) -> _Given:
    """What the client waited longer than the platform had the request passed on the way there and back."""
    ends = [call.phases[name].ns for name in ("connect", "client") if name in call.phases]
    took = served.end - served.start
    network = _attempt_ns(node, call) - sum(ends) - took
    if network < -NESTING_NS:
        if _served_a_failed_attempt(call, took):
            return _Given({})
        return _Given({}, faults=(f"{served.span.engine} span: longer than the call",))
    phase = Phase(ns=max(network, 0), source="derived", field="client span - server span")
    return _Given({"network": phase})


def _fits(node: Node, call: Call, phases: dict[str, Phase]) -> bool:
    """Whether an engine's phases nest inside the client's attempt; no clock is shared, only lengths compare."""
    return node.span.end_ns is None or _together_ns(phases) <= _attempt_ns(node, call) + NESTING_NS


def _served_a_failed_attempt(call: Call, took_ns: int) -> bool:
    """Whether an engine's span may be that of an attempt that failed: of one that was left it may last on."""
    return any(
        not attempt.status.isdigit() or took_ns <= attempt.duration_ns + NESTING_NS
        for attempt in call.failed_attempts
    )


def _together_ns(phases: dict[str, Phase]) -> int:
    """How long an engine says it took."""
    ns = {name: phase.ns for name, phase in phases.items()}
    first_token = max(ns.get("queue", 0) + ns.get("prefill", 0), ns.get("wait", 0))
    return max(first_token + ns.get("generation", 0), ns.get("model", 0))


def _attempt_ns(node: Node, call: Call) -> int:
    """How long the last attempt took."""
    failed = sum([attempt.duration_ns + attempt.backoff_ns for attempt in call.failed_attempts])
    return node.end - node.start - failed


def _joined(call: Call, given: dict[str, Phase], *, late: bool) -> dict[str, Phase]:
    """For each phase the better known figure, and for what an engine divides none of the undivided."""
    own = dict(call.phases)
    if call.queue_starts_late and not late and "queue" in given:
        # A part of the wait gives way to the whole of it.
        own.pop("queue", None)
    both = merged_phases(own, given)
    if "queue" in both and "prefill" in both:
        both.pop("wait", None)
    if "prefill" in both and "generation" in both:
        both.pop("model", None)
    return both


def _once(first: tuple[str, ...], more: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *more]))
