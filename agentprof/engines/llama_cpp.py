"""llama.cpp's server: `timings`, always on (tools/server/server-task.cpp).

`prompt_ms` runs from the slot's start on the prompt to the first token, `predicted_ms` from the first to the
last token; waiting for a slot is in neither. `timings_per_token` repeats them on every chunk: the last holds.

On a stream the headers leave when the slot starts, with the first event of progress where the request has
`return_progress`. That is the end of the wait, if what follows it until the first token is what `prompt_ms` says:
where a proxy sends its headers at another moment it is not, and nothing is said of the queue.

`timings` count tokens too: `prompt_n` those of the prompt that were read, `cache_n` those that the slot still had,
`predicted_n` those of the answer. They are the usage of a stream that was not asked for its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentprof.engines import LLAMA_CPP
from agentprof.engines._times import MILLISECONDS, note, note_fields, object_at
from agentprof.model import Usage

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = LLAMA_CPP
MARKERS: Final = (b'"timings"',)
_FIELDS: Final = {"prompt_ms": "prefill", "predicted_ms": "generation"}
_TOLERANCE_NS: Final = 50 * MILLISECONDS
_SHARE: Final = 20
"""Of the prefill, what it may differ by: one part of so many."""
_MOST_TOKENS: Final = 10**9
"""More than any prompt or answer has."""


def read(body: bytes, answer: Answer) -> bool:
    """Prefill and generation, and the usage where no other was sent."""
    timings = object_at(body, "timings")
    if timings is None or "prompt_ms" not in timings:
        return False
    for phase in _FIELDS.values():
        answer.phases.pop(phase, None)  # of an earlier chunk
    note_fields(answer, timings, "timings", _FIELDS, MILLISECONDS)
    _note_usage(timings, answer)
    return True


def _note_usage(timings: Mapping[str, Any], answer: Answer) -> None:
    """The tokens of an answer of one choice; of several each has timings of its own, and nobody says their sum."""
    if answer.usage is not None and answer.usage is not answer.usage_of_engine:
        return  # usage as such was sent: later it replaces these counts by itself
    one_choice = len(answer.finish_reasons) <= 1
    answer.usage = answer.usage_of_engine = _usage(timings) if one_choice else None


def _usage(timings: Mapping[str, Any]) -> Usage | None:
    read, cached, output = (_count(timings.get(name)) for name in ("prompt_n", "cache_n", "predicted_n"))
    # Servers that do not say what they had cached read a prompt of unknown length.
    prompt = read + cached if read is not None and cached is not None else None
    if prompt is None and output is None:
        return None
    return Usage(input=prompt, output=output, cache_read=cached)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST_TOKENS else None


def note_queue(answer: Answer, headers_ns: int, first_token_ns: int) -> None:
    """Note how long the request waited for its slot, if the headers of its stream tell.

    Args:
        headers_ns: From the request to the headers.
        first_token_ns: From the request to the first token.
    """
    prefill = answer.phases.get("prefill")
    if prefill is None or "queue" in answer.phases:
        return
    by_prefill = first_token_ns - prefill.ns
    if abs(by_prefill - headers_ns) <= max(_TOLERANCE_NS, prefill.ns // _SHARE):
        # Headers are seen a little late by a busy client; the prefill cannot begin before the queue ends.
        note(answer, "queue", max(min(headers_ns, by_prefill), 0), "headers - request", "derived")
