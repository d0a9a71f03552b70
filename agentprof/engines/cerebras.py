"""Cerebras: `time_info`, always on, in a stream on the last chunk.

`total_time` is more than the sum of its parts; what the rest is spent on is not said, and it is left out.
"""

from __future__ import annotations

from typing import Final

from agentprof.engines._times import SECONDS, phases_from
from agentprof.model import Phase

MARKER: Final = b'"time_info"'
_FIELDS: Final = {"queue_time": "queue", "prompt_time": "prefill", "completion_time": "generation"}


def phases_in(body: bytes) -> dict[str, Phase]:
    """Queue, prefill and generation."""
    return phases_from(body, "time_info", _FIELDS, SECONDS)
