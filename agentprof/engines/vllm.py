"""vLLM: `metrics`, on with `--enable-per-request-metrics`, in a stream on the usage chunk.

`time_to_first_token_ms` counts from when the request was scheduled, so it is a prefill time. The queue time
begins in the engine's core: what passes before it is not in any field.
"""

from __future__ import annotations

from typing import Final

from agentprof.engines._times import MILLISECONDS, phases_from
from agentprof.model import Phase

MARKER: Final = b'"metrics"'
_FIELDS: Final = {
    "queue_time_ms": "queue",
    "time_to_first_token_ms": "prefill",
    "generation_time_ms": "generation",
}


def phases_in(body: bytes) -> dict[str, Phase]:
    """Queue, prefill and generation."""
    return phases_from(body, "metrics", _FIELDS, MILLISECONDS)
