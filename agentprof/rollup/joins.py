"""Engine spans that are in no trace of their client are joined to the call that has the same id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from agentprof.model import Span
from agentprof.rollup.tree import Node, Tree

SHORTEST: Final = 8
"""Characters of an id by which spans are joined: a counter of requests is no name."""

REPORTS: Final = 16
"""Spans of calls with one id that may be reports of one call; of more none is."""

CLIMB: Final = 256
"""Spans above another that are looked at; deeper down nothing is joined by id."""

MOST_TRACES: Final = 8
"""Traces of engines that may tell of one call; more say that the id tells no request from another."""

_KIND = re.compile(r"^(?:chatcmpl|cmpl|resp|embd)[-_]")
_INDEX = re.compile(r"-\d{1,4}$")
_TOLERANCE_NS: Final = 5_000_000
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


def seeking(spans: Iterable[Span]) -> list[Span]:
    """The engines' requests whose call is looked for by id: no trace of a client reached them, so they have no parent.

    Whether one is sought by its id does not change with what arrives later.
    """
    return [span for span in spans if span.engine is not None and span.parent_id is None and engine_ids(span)]


def ties(spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Pairs of traces that share an id of a request, whether or not it says which call was served."""
    first: dict[str, str] = {}
    for span in seeking(spans):
        for one in engine_ids(span):
            yield span.trace_id, first.setdefault(one, span.trace_id)
    for span in spans if first else ():
        for one in call_ids(span):
            if one in first:
                yield span.trace_id, first[one]


class Match(NamedTuple):
    """An engine's span and the reports of the call it served, in another trace."""

    engine: Span
    calls: Sequence[Span]


def matches(spans: Sequence[Span]) -> list[Match]:
    """The engine spans whose call is found by id alone: several reports of one call are one call."""
    engines = seeking(spans)
    if not engines:
        return []
    by_id: dict[str, list[Span]] = {}
    for span in spans:
        for one in call_ids(span):
            by_id.setdefault(one, []).append(span)
    found: list[Match] = []
    served: dict[Key, set[str]] = {}
    for engine in engines:
        reports = {
            span.key: span
            for one in engine_ids(engine)
            if len(known := by_id.get(one, ())) <= REPORTS
            for span in known
        }
        if reports and _are_one(list(reports.values())):
            match = Match(engine, [reports[key] for key in sorted(reports)])
            found.append(match)
            served.setdefault(match.calls[0].key, set()).add(engine.trace_id)
    return [match for match in found if len(served[match.calls[0].key]) <= MOST_TRACES]


def adopted(kept: Sequence[Span], owner: Mapping[Key, str | None]) -> dict[Key, Span]:
    """For every span that follows a call, an engine's own and all below it: a report of that call."""
    found: dict[Key, Span] = {}
    matched = matches(kept)
    if not matched:
        return found
    traces = {match.engine.trace_id for match in matched}
    below: dict[Key, list[Span]] = {}
    for span in kept:
        if span.trace_id in traces:
            below.setdefault((span.trace_id, span.parent_id or ""), []).append(span)
    for engine, calls in matched:
        todo = [engine]
        while todo:
            span = todo.pop()
            if span.key not in found and owner.get(span.key) is None:
                found[span.key] = calls[0]
                todo += below.get(span.key, ())
    return found


def hang_by_id(tree: Tree) -> None:
    """Hang engine spans below no call from the one call that has their id.

    Some instrumentations make a span of a call and let the request carry the context around it, so that the engine's
    span stands beside the call in the same trace.
    """
    alone = [
        node
        for node in tree.of_kind("model")
        if node.span.engine is not None and engine_ids(node.span) and _is_below_no_call(node)
    ]
    if not alone:
        return
    by_id: dict[str, dict[Key, Node]] = {}
    for node in tree.of_kind("model"):
        for one in call_ids(node.span):
            by_id.setdefault(one, {})[node.span.key] = node
    moved = False
    for node in alone:
        found = {
            key: call
            for one in engine_ids(node.span)
            if len(by_id.get(one, ())) <= REPORTS
            for key, call in by_id.get(one, {}).items()
        }
        reports = list(found.values())
        if not reports or not _are_one([call.span for call in reports]):
            continue
        call = min(reports, key=lambda call: (call.end - call.start, call.order))
        if _can_hang(node, call):
            node.parent = call
            moved = True
    if moved:
        tree.relink()


def _is_below_no_call(node: Node) -> bool:
    above = list(islice(node.ancestors(), CLIMB))
    return len(above) < CLIMB and not any(one.kind == "model" and one.span.engine is None for one in above)


def _can_hang(node: Node, call: Node) -> bool:
    """Whether the call is not itself below the node."""
    above = list(islice(call.ancestors(), CLIMB))
    return len(above) < CLIMB and not any(one is node for one in above)


def _are_one(reports: Sequence[Span]) -> bool:
    """All in one trace, and the shortest inside the time of each of the others."""
    if len({span.trace_id for span in reports}) > 1:
        return False
    ends = [(span.start_ns, span.end_ns if span.end_ns is not None else span.start_ns) for span in reports]
    start, end = min(ends, key=lambda times: times[1] - times[0])
    return all(begin - _TOLERANCE_NS <= start and end <= stop + _TOLERANCE_NS for begin, stop in ends)
