"""Fireworks: `perf_metrics` in the body if the request has `perf_metrics_in_response`, the same names in headers.

Seconds, often as text (docs.fireworks.ai; fireworks_ai 1.2, training/sdk/sampling.py). Every deployment says when the
first token was there and how long it took; one of the user's own also says how the time divides. Its queues for
tokenizer, prefill and generation are one queue here; tokenizing is neither queue nor prefill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentprof.engines._times import SECONDS, duration, note, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "fireworks"
MARKERS: Final = (b'"perf_metrics"',)
SECTION: Final = "perf_metrics"
QUEUES: Final = ("tokenizer-queue-duration", "prefill-queue-duration", "generation-queue-duration")
_FIELDS: Final = {
    "prefill-duration": "prefill",
    "generation-duration": "generation",
    "server-time-to-first-token": "wait",
    "server-processing-time": "model",
}


def read(body: bytes, answer: Answer) -> bool:
    """Queue, prefill and generation, or the time to the first token and the whole."""
    found = object_at(body, SECTION)
    if found is None:
        return False
    note_times(found, f"{SECTION}.", answer)
    return True


def note_times(found: Mapping[str, Any], prefix: str, answer: Answer) -> None:
    """Note the times under their names.

    Args:
        prefix: What stands before a name in the path of its field.
    """
    queues = [duration(found.get(name), prefix + name, SECONDS, answer) for name in QUEUES]
    known = [ns for ns in queues if ns is not None]
    if len(known) == len(QUEUES):
        note(answer, "queue", sum(known), " + ".join(prefix + name for name in QUEUES))
    for name, phase in _FIELDS.items():
        note(answer, phase, duration(found.get(name), prefix + name, SECONDS, answer), prefix + name)
