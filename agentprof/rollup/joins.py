"""Engine spans that are in no trace of their client are joined to the call that has the same id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from agentprof.model import Span
from agentprof.rollup.tree import Node, Tree

SHORTEST: Final = 8
"""Characters of an id by which spans are joined: a counter of requests is no name."""

REPORTS: Final = 16
"""Spans of calls with one id that may be reports of one call; of more none is."""

NESTED: Final = 64
"""How far above an engine's span in its own trace what carried its request is looked for."""

_KIND = re.compile(r"^(?:chatcmpl|cmpl|resp|embd)[-_]")
_INDEX = re.compile(r"-\d{1,4}$")
_TOLERANCE_NS: Final = 5_000_000
_TRANSPARENT = frozenset({"other", "evidence"})
# Who never runs an engine that its customers can look into; their ids are many.
_HOSTED = re.compile(
    r"(?:^|\.)(?:openai\.com|anthropic\.com|googleapis\.com|amazonaws\.com|azure\.com)(?::\d+)?$"
)

Key = tuple[str, str]
"""Trace id and span id."""


def call_ids(span: Span) -> tuple[str, ...]:
    """The ids by which an engine may know this call; none for what is no client's call of an engine."""
    call = span.call
    if call is None or span.engine is not None or span.server_side:
        return ()
    first, second = call.response_id, call.request_id
    if (first is None and second is None) or (call.server is not None and _is_hosted(call.server)):
        return ()
    if second is None and first is not None and len(first) >= SHORTEST:
        return (first,)
    return _distinct((first, second))


def engine_ids(span: Span) -> tuple[str, ...]:
    """The ids by which a client may know the request that this span of an engine is about.

    vLLM puts the kind of request before the client's `X-Request-Id`, and the number of the prompt behind it.
    """
    if span.engine is None or span.call is None or span.call.request_id is None:
        return ()
    whole = span.call.request_id
    bare = _INDEX.sub("", whole)
    return _distinct((whole, bare, _KIND.sub("", whole), _KIND.sub("", bare)))


@lru_cache(maxsize=1000)
def _is_hosted(server: str) -> bool:
    return _HOSTED.search(server) is not None


def _distinct(ids: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in ids if one is not None and len(one) >= SHORTEST))


def seeking(spans: Iterable[Span]) -> set[str]:
    """The ids of engine spans that are in no trace of a client, as far as these spans tell."""
    spans = list(spans)
    engines = [(span.trace_id, ids) for span in spans if (ids := engine_ids(span))]
    if not engines:
        return set()
    called = {span.trace_id for span in spans if span.call is not None and span.engine is None}
    return {one for trace_id, ids in engines if trace_id not in called for one in ids}


class Match(NamedTuple):
    """An engine's span and the reports of the call it served, in another trace."""

    engine: Span
    calls: Sequence[Span]


def matches(spans: Sequence[Span]) -> Iterator[Match]:
    """The engine spans whose call is found by id alone: several reports of one call are one call."""
    engines = [span for span in spans if span.engine is not None and engine_ids(span)]
    if not engines:
        return
    called = {span.trace_id for span in spans if span.call is not None and span.engine is None}
    by_id: dict[str, list[Span]] = {}
    for span in spans:
        for one in call_ids(span):
            by_id.setdefault(one, []).append(span)
    for engine in engines:
        if engine.trace_id in called:
            continue
        found = {
            span.key: span
            for one in engine_ids(engine)
            if len(reports := by_id.get(one, ())) <= REPORTS
            for span in reports
        }
        if found and _are_one(list(found.values())):
            yield Match(engine, list(found.values()))


class Adopted(NamedTuple):
    """A span of an engine's trace that belongs to a call elsewhere."""

    span: Span
    """Without a parent where that one stays behind."""
    call: Span


def adopted(kept: Sequence[Span], owner: Mapping[Key, str | None]) -> dict[Key, Adopted]:
    """The spans that follow a call of another trace: an engine's own, what is below it, and what carried it."""
    found: dict[Key, Adopted] = {}
    matched = list(matches(kept))
    if not matched:
        return found
    by_key = {span.key: span for span in kept}
    below: dict[Key, list[Span]] = {}
    for span in kept:
        below.setdefault((span.trace_id, span.parent_id or ""), []).append(span)
    requests = Counter(match.engine.trace_id for match in matched)
    for engine, calls in matched:
        top = engine if requests[engine.trace_id] > 1 else _outermost(engine, by_key, owner)
        todo = [msgspec.structs.replace(top, parent_id=None)]
        while todo:
            span = todo.pop()
            if span.key not in found and owner.get(span.key) is None:
                found[span.key] = Adopted(span, calls[0])
                todo += below.get(span.key, ())
    return found


def _outermost(engine: Span, by_key: Mapping[Key, Span], owner: Mapping[Key, str | None]) -> Span:
    """What stands above an engine's only request in its own trace and carried it there."""
    top, seen = engine, {engine.key}
    while (above := by_key.get((top.trace_id, top.parent_id or ""))) is not None and above.key not in seen:
        if len(seen) > NESTED:
            break
        if above.kind not in _TRANSPARENT or owner.get(above.key) is not None:
            break
        seen.add(above.key)
        top = above
    return top


def hang_by_id(tree: Tree) -> None:
    """Hang engine spans that stand below no call from the one call that has their id."""
    alone = [
        node
        for node in tree.of_kind("model")
        if node.span.engine is not None and engine_ids(node.span) and _is_alone(node)
    ]
    if not alone:
        return
    by_id: dict[str, dict[Key, Node]] = {}
    for node in tree.of_kind("model"):
        for one in call_ids(node.span):
            by_id.setdefault(one, {})[node.span.key] = node
    moved = False
    for node in alone:
        found = {key: call for one in engine_ids(node.span) for key, call in by_id.get(one, {}).items()}
        reports = list(found.values())
        if reports and _are_one([call.span for call in reports]):
            _top(node).parent = min(reports, key=lambda call: (call.end - call.start, call.order))
            moved = True
    if moved:
        tree.relink()


def _are_one(reports: Sequence[Span]) -> bool:
    """All in one trace, and the shortest inside the time of each of the others."""
    if len({span.trace_id for span in reports}) > 1:
        return False
    ends = [(span.start_ns, span.end_ns if span.end_ns is not None else span.start_ns) for span in reports]
    start, end = min(ends, key=lambda times: times[1] - times[0])
    return all(begin - _TOLERANCE_NS <= start and end <= stop + _TOLERANCE_NS for begin, stop in ends)


def _is_alone(node: Node) -> bool:
    """Nothing but what is transparent above, in the engine's own trace."""
    above = islice(node.ancestors(), NESTED)
    return all(one.kind in _TRANSPARENT or one.parent is None for one in above)


def _top(node: Node) -> Node:
    """The outermost span of the engine's trace that is in the tree."""
    top = node
    for above in islice(node.ancestors(), NESTED):
        if above.parent is None:
            break
        top = above
    return top
