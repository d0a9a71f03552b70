"""OTLP as sent → spans with their attributes as sent. Says nothing about what the attributes mean."""

from __future__ import annotations

import msgspec

from agentprof.model import RawSpan


class Batch(msgspec.Struct, frozen=True):
    """What one export request held."""

    spans: list[RawSpan]
    skipped: int = 0
    """Spans left out because they had no trace id, no span id or no start."""
