"""LocalAI: two times beside the counts of `usage`, if the request has the header `Extra-Usage: true`.

In milliseconds; waiting is in neither (https://localai.io, mudler/LocalAI discussion 11727).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import MILLISECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "localai"
MARKERS: Final = (b'"timing_prompt_processing"',)
_FIELDS: Final = {"timing_prompt_processing": "prefill", "timing_token_generation": "generation"}


def read(body: bytes, answer: Answer) -> bool:
    """Prefill and generation."""
    usage = object_at(body, "usage")
    if usage is None:
        return False
    note_fields(answer, usage, "usage", _FIELDS, MILLISECONDS)
    return True
