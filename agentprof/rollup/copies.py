"""Copies of one span become one: delivery is at least once, and some tools write a span when it starts too."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from agentprof.model import Span

_encoder = msgspec.json.Encoder(order="deterministic")


def without_copies(spans: Iterable[Span]) -> list[Span]:
    """One span for each (trace id, span id), ordered by start, trace id and span id.

    Of copies: the ended one, then the later end, then the one with more attributes, then the smaller encoding.
    """
    kept: dict[tuple[str, str], Span] = {}
    for span in spans:
        other = kept.get(span.key)
        if other is None or (other is not span and _better(span, other)):
            kept[span.key] = span
    return sorted(kept.values(), key=lambda span: (span.start_ns, span.trace_id, span.span_id))


def _better(a: Span, b: Span) -> bool:
    rank_a = (a.end_ns is not None, a.end_ns or 0, a.attributes_count)
    rank_b = (b.end_ns is not None, b.end_ns or 0, b.attributes_count)
    return rank_a > rank_b if rank_a != rank_b else _encoder.encode(a) < _encoder.encode(b)
