"""NVIDIA NIM: `stats`, on with `NIM_PER_REQ_METRICS_ENABLE=1`, in a stream on the last chunk.

https://docs.nvidia.com/nim/large-language-models/latest/nim-per-request-metrics.html: the queue where vLLM runs below,
and the mean time between tokens. Whether its time to the first token holds the queue is not said: it is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentprof.engines._times import MILLISECONDS, duration, note, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "nim"
MARKERS: Final = (b'"NIM LLM Model Stats"',)
_QUEUE: Final = "time_in_queue_in_ms"
_GAP: Final = "token_to_token_time_in_ms"
_LENGTH: Final = "response_token_length"


def read(body: bytes, answer: Answer) -> bool:
    """Queue and generation."""
    stats = object_at(body, "stats")
    if stats is None:
        return False
    note(
        answer,
        "queue",
        duration(stats.get(_QUEUE), f"stats.{_QUEUE}", MILLISECONDS, answer),
        f"stats.{_QUEUE}",
    )
    tokens: Any = stats.get("response_tokens")
    if isinstance(tokens, dict):
        path = "stats.response_tokens"
        gap, length = duration(tokens.get(_GAP), f"{path}.{_GAP}", MILLISECONDS, answer), tokens.get(_LENGTH)
        if gap is not None and type(length) is int and length > 0:
            field = f"{path}.{_GAP} * ({path}.{_LENGTH} - 1)"
            note(answer, "generation", gap * (length - 1), field, "derived")
    return True
