"""Groq: times beside the counts of `usage`, always on; in a stream on the last chunk, there also in `x_groq`.

`queue_time` begins when the request arrives, `total_time` leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import SECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "groq"
MARKERS: Final = (b'"completion_time"',)
_FIELDS: Final = {"queue_time": "queue", "prompt_time": "prefill", "completion_time": "generation"}


def read(body: bytes, answer: Answer) -> bool:
    """Queue, prefill and generation."""
    for section in ("usage", "x_groq.usage"):
        usage = object_at(body, section)
        if usage is not None and "prompt_time" in usage:
            note_fields(answer, usage, section, _FIELDS, SECONDS)
            return True
    return False
