"""Spans of different instrumentations that saw the same call become one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.union import trust, union
from agentprof.rollup.wrappers import OWN_WORK, rebased

TOLERANCE_NS = 5_000_000
"""Instrumentations take their stamps at different depths and clocks: 5 ms."""

NESTED = 64
"""How far above a call other reports of it are looked for."""

AT_ONCE = 400
"""Calls of one model that are looked at around one start: more of them at once are not told apart."""


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
    joined: set[int] = set()
    moved: dict[int, Node] = {}
    for node in sorted(calls, key=_innermost_first):
        if id(node) in joined:
            continue
        joined.add(id(node))
        others = _best_by_scope(node, buckets, joined, nested)
        if others:
            joined.update(map(id, others))
            moved.update((id(other), node) for other in others)
            _join(node, others)
    if moved:
        for node in tree.nodes:
            if node.parent is not None and id(node.parent) in moved:
                node.parent = moved[id(node.parent)]
        tree.nodes = [node for node in tree.nodes if id(node) not in moved]
        tree.relink()


class _Bucket:
    """Calls of one trace that share a response id or a model, by start."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.starts = [node.start for node in nodes]
        self.longest = max(node.end - node.start for node in nodes)

    def around(self, inner: Node) -> Iterator[Node]:
        """The calls in whose time `inner` lies, within the tolerance, the latest start first."""
        last = bisect_right(self.starts, inner.start + TOLERANCE_NS) - 1
        for i in range(last, max(-1, last - AT_ONCE), -1):
            node = self.nodes[i]
            if node.start + self.longest < inner.end - TOLERANCE_NS:
                return
            if node.end >= inner.end - TOLERANCE_NS:
                yield node


_Key = tuple[str, str, str]


def _keys(node: Node) -> list[_Key]:
    call, trace_id = node.call, node.span.trace_id
    if call is None:
        return []
    models = dict.fromkeys((call.model, call.request_model))
    keys: list[_Key] = [(trace_id, "model", model) for model in models if model is not None]
    if call.response_id is not None:
        keys.append((trace_id, "id", call.response_id))
    return keys


def _buckets(calls: Iterable[Node]) -> dict[_Key, _Bucket]:
    found: dict[_Key, list[Node]] = {}
    for node in calls:
        for key in _keys(node):
            found.setdefault(key, []).append(node)
    return {
        key: _Bucket(nodes) for key, nodes in found.items() if len({node.span.scope for node in nodes}) > 1
    }


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
    node: Node, buckets: dict[_Key, _Bucket], joined: set[int], nested: dict[int, set[str | None]]
) -> list[Node]:
    """For every other scope the twin with the largest overlap, then the earlier start."""
    found = {
        id(other): other
        for key in _keys(node)
        if key in buckets
        for other in buckets[key].around(node)
        if id(other) not in joined
        and other.span.scope != node.span.scope
        and _same_call(node, other)
        and other.span.scope not in nested.get(id(node), ())
        and node.span.scope not in nested.get(id(other), ())
        and not _nested(node, other)
    }
    best: dict[str, Node] = {}
    for other in sorted(found.values(), key=lambda other: other.order):
        kept = best.get(other.span.scope)
        if kept is None or _overlap(node, other) > _overlap(node, kept):
            best[other.span.scope] = other
    return [best[scope] for scope in sorted(best)]


def _same_call(inner: Node, outer: Node) -> bool:
    if inner.call is None or outer.call is None:
        return False
    ids = (inner.call.response_id, outer.call.response_id)
    if None not in ids:
        return ids[0] == ids[1]
    counts = [
        (usage.input, usage.output) if usage is not None and not usage.estimated else (None, None)
        for usage in (inner.call.usage, outer.call.usage)
    ]
    return _same_interval(inner, outer) if (None, None) in counts else counts[0] == counts[1]


def _same_interval(a: Node, b: Node) -> bool:
    return abs(a.start - b.start) <= TOLERANCE_NS and abs(a.end - b.end) <= TOLERANCE_NS


def _nested(a: Node, b: Node) -> bool:
    return any(above is b for above in a.ancestors()) or any(above is a for above in b.ancestors())


def _overlap(a: Node, b: Node) -> int:
    return min(a.end, b.end) - max(a.start, b.start)


def _join(inner: Node, others: list[Node]) -> None:
    everyone = sorted(
        (inner, *others),
        key=lambda n: (trust(n.span.scope), -n.span.attributes_count, n.span.scope, n.order),
    )
    inner.call = union([rebased(n.call, n.start - inner.start) for n in everyone if n.call is not None])
    inner.title = inner.call.model or inner.title
    inner.error = inner.error or any(other.error for other in others)
