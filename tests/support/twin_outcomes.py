"""What may become of a call: the answers of the server for each wire format, and what goes wrong with them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from support.anthropic_wire import ERROR as OVERLOADED
from support.anthropic_wire import MESSAGE
from support.anthropic_wire import STREAM as MESSAGES
from support.model_server import CHAT, DONE, Reply, chunk

MODEL = "gpt-4o-mini"
SAID = '{"text": "Hello."}'
LONGEST_WAIT_S = 20.0

_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
_MESSAGE = {"role": "assistant", "content": SAID, "refusal": None, "tool_calls": [_CALL]}
_PART = {"type": "output_text", "text": SAID, "annotations": []}
_ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [_PART]}
_RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000,
    "status": "completed",
    "model": MODEL,
    "output": [_ITEM],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "usage": {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 18,
    },
}
_COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1700000000,
    "model": MODEL,
    "choices": [{"index": 0, "text": "Hello.", "logprobs": None, "finish_reason": "stop"}],
    "usage": CHAT["usage"],
}
_EMBEDDINGS = {
    "object": "list",
    "model": MODEL,
    "data": [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}],
    "usage": {"prompt_tokens": 8, "total_tokens": 8},
}

WHOLE: dict[str, dict[str, Any]] = {
    "chat": CHAT
    | {"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}], "unheard_of": [1]},
    "responses": _RESPONSE,
    "completions": _COMPLETION,
    "embeddings": _EMBEDDINGS,
    "messages": MESSAGE,
}
"""A good answer of each wire format."""

HOLLOW: dict[str, dict[str, Any]] = {
    "chat": CHAT | {"choices": None, "usage": None},
    "responses": _RESPONSE | {"output": None, "usage": {"output_tokens_details": None}},
    "completions": _COMPLETION | {"choices": None, "usage": {"prompt_tokens": "many"}},
    "embeddings": _EMBEDDINGS | {"data": [], "usage": []},
    "messages": MESSAGE | {"content": None, "usage": {"input_tokens": None, "output_tokens": "many"}},
}
"""One with nothing where something belongs."""


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _response_events() -> list[bytes]:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    begun = _RESPONSE | {"status": "in_progress", "output": [], "usage": None}
    item = _ITEM | {"status": "in_progress", "content": []}
    return [
        _event("response.created", response=begun, sequence_number=0),
        _event("response.output_item.added", output_index=0, item=item, sequence_number=1),
        _event("response.content_part.added", part=_PART | {"text": ""}, sequence_number=2, **where),
        _event("response.output_text.delta", delta=SAID[:5], logprobs=[], sequence_number=3, **where),
        _event("response.output_text.delta", delta=SAID[5:], logprobs=[], sequence_number=4, **where),
        _event("response.output_text.done", text=SAID, logprobs=[], sequence_number=5, **where),
        _event("response.content_part.done", part=_PART, sequence_number=6, **where),
        _event("response.output_item.done", output_index=0, item=_ITEM, sequence_number=7),
        _event("response.completed", response=_RESPONSE, sequence_number=8),
    ]


def _text(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps(_COMPLETION | {"choices": [choice], "usage": None}).encode() + b"\n\n"


EVENTS: dict[str, list[bytes]] = {
    "chat": [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": SAID[:5]}),
        chunk({"content": SAID[5:]}),
        chunk({}, "stop"),
        chunk(usage=CHAT["usage"]),
        DONE,
    ],
    "responses": _response_events(),
    "completions": [_text("Hel"), _text("lo."), _text("", "stop"), DONE],
    "messages": MESSAGES,
}
"""A good stream of each wire format."""

ERROR_EVENT: dict[str, bytes] = {
    "chat": b'data: {"error": {"message": "no more", "type": "server_error", "code": null}}\n\n',
    "completions": b'data: {"error": {"message": "no more", "type": "server_error", "code": null}}\n\n',
    "messages": OVERLOADED,
    "responses": _event("error", code="server_error", message="no more", param=None, sequence_number=4),
}

BEFORE_TROUBLE = 2
"""Events of a stream that arrive before something happens to it."""


class Gate:
    """Where server and program wait for each other."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        """The server holds back an answer."""
        self.through = threading.Event()
        """The program has seen all there is."""

    def hold(self) -> None:
        """Hold back, in the thread of the server."""
        self.arrived.set()
        self.through.wait(LONGEST_WAIT_S)


@dataclass(frozen=True)
class Outcome:
    """One way a call may go."""

    name: str
    replies: Callable[[str, Gate], list[Reply]]
    """Takes the wire format, and what holds answers back."""
    retries: int = 0
    read_timeout_s: float = 5.0
    times_out_after: int | None = None
    """The transport reports a timeout after this number of events."""
    leave: str | None = None
    """What the program does in the middle: `break`, `close`, `raise`, `cancel` or `drop`."""


def _hang_up() -> NoReturn:
    raise ConnectionAbortedError


def _whole(wire: str) -> Reply:
    return Reply.json(WHOLE[wire], x_request_id="req_1")


def _refusal(status: int, **headers: str) -> Reply:
    error = {"message": "no, because", "type": "some_error", "param": "model", "code": "some_code"}
    return Reply.json({"error": error}, status, x_request_id="req_0", **headers)


def _half(wire: str) -> Reply:
    body = json.dumps(WHOLE[wire]).encode()
    return Reply([body[: len(body) // 2]], headers={"content-type": "application/json"}, framing="cut")


def _stream(wire: str, framing: str = "chunked", until: int | None = None) -> Reply:
    return Reply.stream(EVENTS[wire][:until], framing)


def _held_stream(wire: str, gate: Gate) -> Reply:
    def pieces() -> Iterator[bytes]:
        yield b"".join(EVENTS[wire][:BEFORE_TROUBLE])
        gate.hold()

    return Reply.stream(pieces(), framing="cut")


_HTML = Reply(b"<html>login</html>", 200, {"content-type": "text/html"})
_BROKEN = Reply(b'{"id": "chatcmpl-1", "choices": [{', 200, {"content-type": "application/json"})

_SHARED = [
    Outcome("400", lambda wire, gate: [_refusal(400)]),
    Outcome("429", lambda wire, gate: [_refusal(429, retry_after="7")]),
    Outcome("503-twice", lambda wire, gate: [_refusal(503, retry_after_ms="1")], retries=1),
    Outcome("503-no-json", lambda wire, gate: [Reply(b"gone", 503, {"content-type": "text/plain"})]),
    Outcome("hung-up", lambda wire, gate: [Reply(b"", before=_hang_up)]),
    Outcome("timeout", lambda wire, gate: [Reply(b"", before=gate.hold)], read_timeout_s=0.02),
]

PLAIN_OUTCOMES: list[Outcome] = [
    Outcome("success", lambda wire, gate: [_whole(wire)]),
    Outcome("hollow", lambda wire, gate: [Reply.json(HOLLOW[wire])]),
    Outcome("html", lambda wire, gate: [_HTML]),
    Outcome("broken-json", lambda wire, gate: [_BROKEN]),
    Outcome("retried", lambda wire, gate: [_refusal(500, retry_after_ms="1"), _whole(wire)], retries=1),
    Outcome("cut", lambda wire, gate: [_half(wire)]),
    Outcome("cancelled", lambda wire, gate: [Reply(b"", before=gate.hold)], leave="cancel"),
    *_SHARED,
]

STREAM_OUTCOMES: list[Outcome] = [
    Outcome("success", lambda wire, gate: [_stream(wire)]),
    Outcome("retried", lambda wire, gate: [_refusal(500, retry_after_ms="1"), _stream(wire)], retries=1),
    Outcome("cut", lambda wire, gate: [_stream(wire, "cut", 3)]),
    Outcome("truncated", lambda wire, gate: [_stream(wire, "close", 3)]),
    Outcome("error-event", lambda wire, gate: [Reply.stream([*EVENTS[wire][:2], ERROR_EVENT[wire]])]),
    Outcome("late-timeout", lambda wire, gate: [_held_stream(wire, gate)], times_out_after=BEFORE_TROUBLE),
    Outcome("cancelled", lambda wire, gate: [_held_stream(wire, gate)], leave="cancel"),
    Outcome("break", lambda wire, gate: [_held_stream(wire, gate)], leave="break"),
    Outcome("close", lambda wire, gate: [_held_stream(wire, gate)], leave="close"),
    Outcome("raise", lambda wire, gate: [_held_stream(wire, gate)], leave="raise"),
    Outcome("drop", lambda wire, gate: [_held_stream(wire, gate)], leave="drop"),
    *_SHARED,
]
