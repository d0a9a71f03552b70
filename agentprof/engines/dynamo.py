"""NVIDIA Dynamo: `nvext.timing`, if the request asks for it (lib/llm/src/protocols/common/timing.rs).

`prefill_wait_time_ms` ends when the router hands the request to a worker, so `prefill_time_ms` holds the worker's own
queue and the way there: neither is taken for a phase. `ttft_ms` and `total_time_ms` count from arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import MILLISECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "dynamo"
MARKERS: Final = (b'"nvext"',)
ADVICE: Final = (
    "Dynamo answers without its times: they come if the request has "
    '`"nvext": {"extra_fields": ["timing"]}`, with the whole time on the last chunk of a stream'
)
_FIELDS: Final = {"ttft_ms": "wait", "total_time_ms": "model"}


def read(body: bytes, answer: Answer) -> bool:
    """The time to the first token and the whole."""
    timing = object_at(body, "nvext.timing")
    if timing is not None:
        note_fields(answer, timing, "nvext.timing", _FIELDS, MILLISECONDS)
    return True
