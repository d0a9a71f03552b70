"""Cerebras: `time_info`, always on, in a stream on the last chunk.

`total_time` is more than the sum of its parts; what the rest is spent on is not said, and it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import SECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "cerebras"
MARKERS: Final = (b'"time_info"',)
_FIELDS: Final = {"queue_time": "queue", "prompt_time": "prefill", "completion_time": "generation"}


def read(body: bytes, answer: Answer) -> bool:
    """Queue, prefill and generation."""
    times = object_at(body, "time_info")
    if times is None:
        return False
    note_fields(answer, times, "time_info", _FIELDS, SECONDS)
    return True
