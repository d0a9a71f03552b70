"""SambaNova: times beside the counts of `usage`, always on, in a stream on the last chunk.

`time_to_first_token` and `total_latency` count from arrival, queueing included (sambanova 1.13,
types/chat/chat_completion_response.py). The `_graph` values are made for display, `start_time` is by a clock that is
not ours: neither is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import SECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "sambanova"
MARKERS: Final = (b'"total_latency"',)
_FIELDS: Final = {"time_to_first_token": "wait", "total_latency": "model"}


def read(body: bytes, answer: Answer) -> bool:
    """The time to the first token and the whole."""
    usage = object_at(body, "usage")
    if usage is None or "total_latency" not in usage:
        return False
    note_fields(answer, usage, "usage", _FIELDS, SECONDS)
    return True
