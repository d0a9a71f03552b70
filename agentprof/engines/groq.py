"""Groq: times beside the counts of `usage`, always on; in a stream on the last chunk, there also in `x_groq`.

`queue_time` begins when the request arrives, `total_time` leaves it out.
"""

from __future__ import annotations

from typing import Final

from agentprof.engines._times import SECONDS, phases_from
from agentprof.model import Phase

MARKER: Final = b'"completion_time"'
_FIELDS: Final = {"queue_time": "queue", "prompt_time": "prefill", "completion_time": "generation"}


def phases_in(body: bytes) -> dict[str, Phase]:
    """Queue, prefill and generation."""
    found = phases_from(body, "usage", _FIELDS, SECONDS)
    return found or phases_from(body, "x_groq.usage", _FIELDS, SECONDS)
