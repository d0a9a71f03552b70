"""Spans of different instrumentations that saw the same call become one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from agentprof.model import Call
from agentprof.rollup.build import on_cycles
from agentprof.rollup.tree import Node, Places, Tree
from agentprof.rollup.union import trust, union
from agentprof.rollup.wrappers import OWN_WORK, rebased

TOLERANCE_NS = 5_000_000
"""Instrumentations take their stamps at different depths and clocks: 5 ms."""

NESTED = 64
"""How far above a call other reports of it are looked for."""

AT_ONCE = 400
"""Reports of one scope that are looked at for one call on either side of its start."""


def join_twins(tree: Tree) -> None:
    """Join model spans of one trace from different scopes, neither above the other, one inside the other's time.

    They must share a response id; or one has none, they share a model, and token counts are known and equal,
    or unknown to one of them and the intervals are the same. Starting from the innermost, a span is joined by at
    most one span of every other scope. The result has the interval of the innermost, what any of them knows,
    and the children of all.
    """
    calls = tree.of_kind("model")
    if len({node.span.scope for node in calls}) < 2:
        return
    buckets = _buckets(calls)
    nested = _scopes_of_nested(calls)
    places = Places(tree)
    joined: set[int] = set()
    moved: dict[int, Node] = {}
    for node in sorted(calls, key=_innermost_first):
        if id(node) in joined:
            continue
        joined.add(id(node))
        others = _best_by_scope(node, buckets, joined, nested, places)
        if others:
            joined.update(map(id, others))
            moved.update((id(other), node) for other in others)
            _join(node, others)
    if moved:
        _move_children(tree, moved)


def _move_children(tree: Tree, moved: Mapping[int, Node]) -> None:
    """Take joined spans out; what hung from them hangs from what they became."""
    tree.nodes = [node for node in tree.nodes if id(node) not in moved]
    given = [node for node in tree.nodes if node.parent is not None and id(node.parent) in moved]
    for node in given:
        if node.parent is not None:
            node.parent = moved[id(node.parent)]
    # Of two pairs each may have one inside the other's: then neither can hang from the other.
    cyclic = set(map(id, on_cycles(tree.nodes))) if given else ()
    for node in given:
        if id(node) in cyclic:
            node.parent = None
    tree.relink()


class _Bucket:
    """Calls of one scope that share something with a call they may be the same as, by start."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.starts: list[int] = []
        self.longest = 0
        # For each place the last one up to it whose call is not joined yet, as far as known; -1: none.
        self._free: list[int] = []

    def add(self, node: Node) -> None:
        """A call that starts no earlier than those before."""
        self._free.append(len(self.nodes))
        self.nodes.append(node)
        self.starts.append(node.start)
        self.longest = max(self.longest, node.end - node.start)

    def around(self, inner: Node, joined: set[int]) -> Iterator[Node]:
        """The calls not joined in whose time `inner` lies, within the tolerance, those that start nearest first."""
        begin = bisect_right(self.starts, inner.start)
        for at in range(begin, min(begin + AT_ONCE, len(self.nodes))):
            node = self.nodes[at]
            if node.start > inner.start + TOLERANCE_NS:
                break
            if id(node) not in joined and node.end >= inner.end - TOLERANCE_NS:
                yield node
        at = begin - 1
        for _ in range(AT_ONCE):
            at = self._last_free(at, joined)
            if at < 0 or self.starts[at] + self.longest < inner.end - TOLERANCE_NS:
                return
            if self.nodes[at].end >= inner.end - TOLERANCE_NS:
                yield self.nodes[at]
            at -= 1

    def _last_free(self, at: int, joined: set[int]) -> int:
        passed: list[int] = []
        while at >= 0 and id(self.nodes[at]) in joined:
            passed.append(at)
            at = self._free[at] if self._free[at] < at else at - 1
        for place in passed:
            self._free[place] = at
        return at


_Key = tuple[object, ...]
_Buckets = dict[_Key, dict[str, _Bucket]]


def _kept_under(node: Node) -> list[_Key]:
    call, trace_id = node.call, node.span.trace_id
    if call is None:
        return []
    keys: list[_Key] = [] if call.response_id is None else [(trace_id, "id", call.response_id)]
    for model in _models(call):
        keys += [(trace_id, model), (trace_id, model, counts_of(call))]
    return keys


def _looked_for_under(node: Node) -> list[_Key]:
    """Where the same call may be: under its id, else where model and counts are the same or counts unknown."""
    call, trace_id = node.call, node.span.trace_id
    if call is None:
        return []
    keys: list[_Key] = [] if call.response_id is None else [(trace_id, "id", call.response_id)]
    counts = counts_of(call)
    for model in _models(call):
        keys += (
            [(trace_id, model)] if counts is None else [(trace_id, model, counts), (trace_id, model, None)]
        )
    return keys


def _models(call: Call) -> list[str]:
    return [model for model in dict.fromkeys((call.model, call.request_model)) if model is not None]


def counts_of(call: Call) -> tuple[int | None, int | None] | None:
    """Tokens in and out; None where neither is known."""
    usage = call.usage
    if usage is None or usage.estimated or (usage.input is None and usage.output is None):
        return None
    return usage.input, usage.output


def _buckets(calls: Iterable[Node]) -> _Buckets:
    found: _Buckets = {}
    for node in sorted(calls, key=lambda node: node.start):
        for key in _kept_under(node):
            found.setdefault(key, {}).setdefault(node.span.scope, _Bucket()).add(node)
    return found


def _innermost_first(node: Node) -> tuple[object, ...]:
    return (node.end - node.start, -node.span.attributes_count, node.order)


def _scopes_of_nested(calls: Iterable[Node]) -> dict[int, set[str | None]]:
    """For each call the scopes that saw it above or below: of calls made at once, such a scope's other is not it."""
    found: dict[int, set[str | None]] = {}
    for node in calls:
        for above in islice(node.ancestors(), NESTED):
            if above.kind in OWN_WORK:
                break
            if above.kind == "model" and above.span.scope != node.span.scope and _same_call(node, above):
                found.setdefault(id(node), set()).add(above.span.scope)
                found.setdefault(id(above), set()).add(node.span.scope)
    return found


def _best_by_scope(
    node: Node,
    buckets: _Buckets,
    joined: set[int],
    nested: dict[int, set[str | None]],
    places: Places,
) -> list[Node]:
    """For every other scope the twin with the largest overlap, then the nearest interval, then the earlier start."""
    found = {
        id(other): other
        for key in _looked_for_under(node)
        for scope, bucket in buckets.get(key, {}).items()
        if scope != node.span.scope
        for other in bucket.around(node, joined)
        if _same_call(node, other)
        and other.span.scope not in nested.get(id(node), ())
        and node.span.scope not in nested.get(id(other), ())
        and not places.is_below(node, other)
        and not places.is_below(other, node)
    }
    best: dict[str, Node] = {}
    for other in sorted(found.values(), key=lambda other: other.order):
        kept = best.get(other.span.scope)
        if kept is None or _likeness(node, other) > _likeness(node, kept):
            best[other.span.scope] = other
    return [best[scope] for scope in sorted(best)]


def _same_call(inner: Node, outer: Node) -> bool:
    if inner.call is None or outer.call is None:
        return False
    ids = (inner.call.response_id, outer.call.response_id)
    if None not in ids:
        return ids[0] == ids[1]
    counts = counts_of(inner.call), counts_of(outer.call)
    return _same_interval(inner, outer) if None in counts else counts[0] == counts[1]


def _same_interval(a: Node, b: Node) -> bool:
    return abs(a.start - b.start) <= TOLERANCE_NS and abs(a.end - b.end) <= TOLERANCE_NS


def _likeness(a: Node, b: Node) -> tuple[int, int]:
    """The larger, the more they are alike.

    The inner of two has as much in common with all that hold it: of calls made at once the nearest is its other report.
    """
    return min(a.end, b.end) - max(a.start, b.start), -abs(a.start - b.start) - abs(a.end - b.end)


def _join(inner: Node, others: list[Node]) -> None:
    everyone = sorted(
        (inner, *others),
        key=lambda n: (trust(n.span.scope), -n.span.attributes_count, n.span.scope, n.order),
    )
    inner.call = union([rebased(n.call, n.start - inner.start) for n in everyone if n.call is not None])
    inner.title = inner.call.model or inner.title
    inner.error = inner.error or any(other.error for other in others)
