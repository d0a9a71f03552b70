"""Copies of one span become one: delivery is at least once, and some tools write a span when it starts too."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from agentprof.model import Span

_encoder = msgspec.json.Encoder(order="deterministic")

in_order = attrgetter("start_ns", "trace_id", "span_id")
"""Sorts spans: by start, then trace id, then span id."""


def without_copies(spans: Iterable[Span]) -> list[Span]:
    """One span for each (trace id, span id), ordered by start, trace id and span id.

    Of copies: the ended one, then the later end, then the one with more attributes, then the smaller encoding.
    """
    given = list(spans)
    kept: dict[tuple[str, str], Span] = {(span.trace_id, span.span_id): span for span in given}
    if len(kept) < len(given):
        for span in given:
            other = kept[span.key]
            if other is not span and _better(span, other):
                kept[span.key] = span
        given = list(kept.values())
    return sorted(given, key=in_order)


def _better(a: Span, b: Span) -> bool:
    rank_a = (a.end_ns is not None, a.end_ns or 0, a.attributes_count)
    rank_b = (b.end_ns is not None, b.end_ns or 0, b.attributes_count)
    if rank_a != rank_b:
        return rank_a > rank_b
    return a != b and _encoded(a) < _encoded(b)


def _encoded(span: Span) -> bytes:
    # Histograms have numbers as keys, which cannot be put in order by the encoder.
    return _encoder.encode(msgspec.to_builtins(span, str_keys=True))
