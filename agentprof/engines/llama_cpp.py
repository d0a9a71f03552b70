"""llama.cpp's server: `timings`, always on.

`prompt_ms` runs from the slot's start on the prompt to the first token, `predicted_ms` from the first to the
last token; waiting for a slot is in neither. `timings_per_token` repeats them on every chunk: the last holds.
"""

from __future__ import annotations

from typing import Final

from agentprof.engines._times import MILLISECONDS, phases_from
from agentprof.model import Phase

MARKER: Final = b'"timings"'
_FIELDS: Final = {"prompt_ms": "prefill", "predicted_ms": "generation"}


def phases_in(body: bytes) -> dict[str, Phase]:
    """Prefill and generation."""
    return phases_from(body, "timings", _FIELDS, MILLISECONDS)
