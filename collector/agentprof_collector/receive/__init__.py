"""OTLP as sent → spans with their attributes as sent. Says nothing about what the attributes mean."""

from __future__ import annotations

from typing import Final

import msgspec

from agentprof.model import RawSpan

ID_CHARS: Final = 256
"""Characters of the id of a trace or span; they are 32 and 16. Of longer ones a hash stands for the rest."""


class Batch(msgspec.Struct, frozen=True):
    """What one export request held."""

    spans: list[RawSpan]
    skipped: int = 0
    """Spans left out because they had no trace id, no span id or no start."""
    lost: int = 0
    """Values left out because they were of a wrong type or size."""
    line: int | None = None
    """Where the request stood, for one with anything left out: its line, or its number where there are no lines."""
