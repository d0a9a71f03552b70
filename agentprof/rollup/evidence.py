"""Evidence spans leave the tree and give what they measured to the call above them."""

from __future__ import annotations

import msgspec

from agentprof.model import Call, Phase
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.union import merged_phases

# What may stand between a call and the span of the engine that served it.
_BETWEEN = frozenset({"evidence", "other"})


def give_evidence(tree: Tree) -> None:
    """Take phase, attempt, HTTP client and server-side spans out; durations of theirs go to their call.

    A server-side model span with no call above is the only witness of its call and stays.
    """
    if not any(node.kind == "evidence" or node.span.server_side for node in tree.nodes):
        return
    below = _with_model_or_tool_below(tree)
    call_above = _calls_above(tree)
    leaving = [
        node
        for node in tree.nodes
        if node.kind == "evidence"
        or (node.span.server_side and node.kind == "other" and id(node) not in below)
        or (
            node.span.server_side
            and node.kind == "model"
            and id(node) not in below
            and id(node) in call_above
        )
    ]
    received: dict[int, tuple[Node, list[Node]]] = {}
    for node in leaving:
        call = call_above.get(id(node))
        if call is not None:
            received.setdefault(id(call), (call, []))[1].append(node)
    for call, givers in received.values():
        if call.call is not None:
            call.call = _with_evidence(call.call, givers)
    tree.drop(leaving)


def _with_model_or_tool_below(tree: Tree) -> set[int]:
    """Ids of the nodes that have a model or a tool span below them."""
    found: set[int] = set()
    for node in tree.bottom_up():
        if node.parent is not None and (id(node) in found or node.kind in ("model", "tool")):
            found.add(id(node.parent))
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
        elif above.kind in _BETWEEN and id(above) in found:
            found[id(node)] = found[id(above)]
    return found


def _with_evidence(call: Call, givers: list[Node]) -> Call:
    """The call with what its evidence knows. Of several engine spans the last to start served the answer."""
    phases: dict[str, Phase] = {}
    late_queue: Phase | None = call.phases.get("queue") if call.queue_starts_late else None
    for node in sorted(givers, key=lambda node: node.order, reverse=True):
        given, late = _given(node)
        if late and "queue" not in phases:
            late_queue = given.get("queue")
        phases = {**given, **phases}
    both = merged_phases(call.phases, phases)
    queue = both.get("queue")
    return msgspec.structs.replace(
        call, phases=both, queue_starts_late=queue is not None and queue == late_queue
    )


def _given(node: Node) -> tuple[dict[str, Phase], bool]:
    if node.call is not None:
        return node.call.phases, node.call.queue_starts_late
    evidence = node.span.evidence
    return (evidence.phases, evidence.queue_starts_late) if evidence is not None else ({}, False)
