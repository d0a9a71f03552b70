"""llama.cpp's server: `timings`, always on (tools/server/server-task.cpp).

`prompt_ms` runs from the slot's start on the prompt to the first token, `predicted_ms` from the first to the
last token; waiting for a slot is in neither. `timings_per_token` repeats them on every chunk: the last holds.

On a stream the headers leave when the slot starts, unless `return_progress` was asked for: then the first event
does. That time is the end of the wait, if what follows it until the first token is what `prompt_ms` says. Where a
proxy sends its headers at another moment it is not, and nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import MILLISECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "llama.cpp"
MARKERS: Final = (b'"timings"',)
_FIELDS: Final = {"prompt_ms": "prefill", "predicted_ms": "generation"}
_TOLERANCE_NS: Final = 50 * MILLISECONDS
_SHARE: Final = 20
"""Of the prefill, what it may differ by: one part of so many."""


def read(body: bytes, answer: Answer) -> bool:
    """Prefill and generation."""
    timings = object_at(body, "timings")
    if timings is None or "prompt_ms" not in timings:
        return False
    for phase in _FIELDS.values():
        answer.phases.pop(phase, None)  # of an earlier chunk
    note_fields(answer, timings, "timings", _FIELDS, MILLISECONDS)
    return True


def starts_with(slot_ns: int, first_token_ns: int, answer: Answer) -> bool:
    """Whether the slot started at a moment, by what is known of the prefill.

    Args:
        slot_ns: The moment.
        first_token_ns: When the first token came, by the same clock.
    """
    prefill = answer.phases.get("prefill")
    if answer.engine != NAME or prefill is None:
        return False
    differs = first_token_ns - slot_ns - prefill.ns
    return abs(differs) <= max(_TOLERANCE_NS, prefill.ns // _SHARE)
