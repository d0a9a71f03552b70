"""Calls to the model server of the tests whose times are known, and what is shown of them.

The server's pauses are true times from below; from above a busy machine adds to them.
"""

from __future__ import annotations

from typing import Any

import openai
from support.model_server import CHAT, ModelServer, Reply

from agentprof._readable import to_raw
from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.testing import Captured
from agentprof.vocabularies import normalise

S = 1_000_000_000
EARLY = 0.03
"""What a pause may seem shorter by: the piece before it may have come late."""
LATE = 0.600
"""What a busy machine may add to a pause."""

USAGE = {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320}
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Count."}]}


def metrics(queue: float, prefill: float, generation: float) -> dict[str, Any]:
    """What vLLM puts beside the usage, of seconds."""
    times = {"queue_time_ms": queue, "time_to_first_token_ms": prefill, "generation_time_ms": generation}
    return {"metrics": {name: s * 1000 for name, s in times.items()}}


def streamed(server: ModelServer, pieces: list[bytes | float]) -> None:
    """Read a stream to its end with the openai SDK."""
    server.replies = [Reply.stream(pieces)]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            pass


def whole(server: ModelServer, body: dict[str, Any], wait_s: float) -> None:
    """Get a whole answer with the openai SDK."""
    reply = Reply.json(CHAT | {"usage": USAGE} | body)
    reply.wait_s = wait_s
    server.replies = [reply]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        client.chat.completions.create(**ASKED)


def spans_of(captured: Captured) -> list[Span]:
    return [normalise(to_raw(span)) for span in captured.spans]


def row_of(captured: Captured) -> CallRow:
    (row,) = call_rows("t", spans_of(captured))
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row


def faults(captured: Captured) -> str:
    """What the summary says of times that cannot be."""
    found = [w.detail for w in roll_up("t", spans_of(captured)).warnings if w.code == "timing_faults"]
    return found[0] if found else ""


def about(seconds: float) -> Any:
    """A time in ns that is no shorter, and not much longer."""

    class About:
        def __eq__(self, ns: object) -> bool:
            return isinstance(ns, int) and seconds - EARLY <= ns / S <= seconds + LATE

        def __repr__(self) -> str:
            return f"about {seconds} s"

    return About()


def exactly(seconds: float) -> int:
    return round(seconds * S)


def saying(captured: Captured, name: str) -> Any:
    return (captured.spans[0].attributes or {}).get(name)
