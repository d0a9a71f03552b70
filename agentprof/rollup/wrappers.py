"""Model spans that only wrap another model span are no calls of their own."""

from __future__ import annotations

from collections import Counter

import msgspec

from agentprof.model import Call
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.union import trust, union

OWN_WORK = frozenset({"tool", "agent"})
"""Kinds of spans that make calls of their own: a model span above one is not the call below."""


class _Below:
    """What stands below a node with no tool or agent span between."""

    __slots__ = ("calls", "ids", "one")

    def __init__(self) -> None:
        self.ids: Counter[str | None] = Counter()
        """Response ids of all model spans, wrappers among them."""
        self.calls = 0
        self.one: Node | None = None
        """A call; the only one if there is one."""


def unwrap_calls(tree: Tree) -> None:
    """A model span with a model span below, no tool or agent between, is a wrapper.

    It is a call all the same if it has usage and a response id and every such span below has a response
    id different from its own. What only a wrapper knows goes to the call below if there is exactly one.
    """
    if not any(node.kind == "model" and node.children for node in tree.nodes):
        return
    below: dict[int, _Below] = {}
    for node in tree.bottom_up():
        mine = below.pop(id(node), None) or _Below()
        if node.kind == "model":
            if mine.ids and not _is_a_call_too(node.call, mine.ids):
                node.kind = "wrapper"
                if mine.calls == 1 and mine.one is not None:
                    _give(node, mine.one)
                elif _knows_something(node.call):
                    tree.warn("double_report")
            else:
                mine.calls, mine.one = mine.calls + 1, node
            mine.ids[node.call.response_id if node.call else None] += 1
        if node.parent is not None and node.kind not in OWN_WORK:
            _add(below, id(node.parent), mine)
    for node in tree.of_kind("wrapper"):
        node.call = None


def _is_a_call_too(call: Call | None, ids_below: Counter[str | None]) -> bool:
    if call is None or call.usage is None or call.response_id is None:
        return False
    return None not in ids_below and call.response_id not in ids_below


def _add(below: dict[int, _Below], parent: int, mine: _Below) -> None:
    other = below.get(parent)
    if other is None:
        below[parent] = mine
        return
    # The smaller counter goes into the larger, so that long chains cost n log n.
    if len(other.ids) < len(mine.ids):
        other.ids, mine.ids = mine.ids, other.ids
    other.ids.update(mine.ids)
    other.calls += mine.calls
    other.one = other.one or mine.one


def _give(wrapper: Node, inner: Node) -> None:
    if wrapper.call is not None and inner.call is not None:
        reports = [inner.call, rebased(wrapper.call, wrapper.start - inner.start)]
        if trust(wrapper.span.scope) < trust(inner.span.scope):
            reports.reverse()
        inner.call = union(reports)
        inner.title = inner.call.model or inner.title
    inner.error = inner.error or wrapper.error


def _knows_something(call: Call | None) -> bool:
    return call is not None and (call.usage is not None or call.cost is not None)


def rebased(call: Call, shift_ns: int) -> Call:
    """The call with its instants counted from a start that lies `-shift_ns` after its own."""

    def moved(instant_ns: int | None) -> int | None:
        return None if instant_ns is None else max(0, instant_ns + shift_ns)

    return msgspec.structs.replace(
        call, first_token_ns=moved(call.first_token_ns), first_content_ns=moved(call.first_content_ns)
    )
