"""Calls to the model server of the tests whose times are known, and what is shown of them.

A pause is a true time from below where it begins after the stamp that begins what is measured: it follows the sending
of the request, or the server waits with it until the client has what was sent before. From above a busy machine adds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
EARLY = 0.15
"""What a pause may seem shorter by that does not wait for the client: it saw late what came before. Such pauses are
twice as long at least."""
LATE = 3.0
"""What a busy machine may add to a pause."""
ROUNDING = 1e-6
"""Of a sum of times, in seconds."""
PATIENCE_S = 30.0
TRIES = 20

USAGE = {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320}
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Count."}]}


def metrics(queue: float, prefill: float, generation: float) -> dict[str, Any]:
    """What vLLM puts beside the usage, of seconds."""
    times = {"queue_time_ms": queue, "time_to_first_token_ms": prefill, "generation_time_ms": generation}
    return {"metrics": {name: s * 1000 for name, s in times.items()}}


class Pacing:
    """Lets each pause of a stream begin when the client has what was sent before it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = False
        self._sent = self._got = 0

    def begun(self) -> None:
        """The client has the headers."""
        with self._changed:
            self._begun = True
            self._changed.notify_all()

    def got(self, events: int = 1) -> None:
        """The client has more events."""
        with self._changed:
            self._got += events
            self._changed.notify_all()

    def pieces(self, pieces: Iterable[bytes | float]) -> Iterator[bytes]:
        """The body: pieces to send, and pauses in seconds. Runs in the thread of the server."""
        for piece in pieces:
            if isinstance(piece, bytes):
                self._sent += piece.count(b"data: ")
                yield piece
                continue
            with self._changed:
                assert self._changed.wait_for(self._has_all, PATIENCE_S)
            time.sleep(piece)

    def _has_all(self) -> bool:
        return self._begun and self._got >= self._sent


def streamed(
    server: ModelServer,
    pieces: Iterable[bytes | float],
    wait_s: float = 0.0,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Read a stream to its end with the openai SDK.

    Args:
        wait_s: Pause before the headers.
    """
    pacing = Pacing()
    reply = Reply.stream(pacing.pieces(pieces), wait_s=wait_s)
    reply.headers |= headers or {}
    server.replies = [reply]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        stream = client.chat.completions.create(**ASKED, stream=True)
        pacing.begun()
        for _ in stream:
            pacing.got()


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


def with_queue(captured: Captured, call: Callable[[], object]) -> CallRow:
    """A call whose headers tell how long it queued; made again where the client was held up too long to see it."""
    for _ in range(TRIES):
        captured.spans.clear()
        call()
        row = row_of(captured)
        if "queue" in row.phases_ns:
            break
    return row


def faults(captured: Captured) -> str:
    """What the summary says of times that cannot be."""
    found = [w.detail for w in roll_up("t", spans_of(captured)).warnings if w.code == "timing_faults"]
    return found[0] if found else ""


def about(seconds: float, early: float = ROUNDING) -> Any:
    """A time in ns that is no shorter, and not much longer."""

    class About:
        def __eq__(self, ns: object) -> bool:
            return isinstance(ns, int) and seconds - early <= ns / S <= seconds + LATE

        def __repr__(self) -> str:
            return f"about {seconds} s"

    return About()


def exactly(seconds: float) -> int:
    return round(seconds * S)


def saying(captured: Captured, name: str) -> Any:
    return (captured.spans[0].attributes or {}).get(name)
