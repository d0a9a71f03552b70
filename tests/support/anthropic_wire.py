"""Answers of Anthropic messages for tests: a whole one, and the events of a stream."""

from __future__ import annotations

import json
from typing import Any

MODEL = "claude-sonnet-5-5"
ANSWERED_BY = "claude-sonnet-5-5-20260901"

USAGE: dict[str, Any] = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    "output_tokens": 60,
    "output_tokens_details": {"thinking_tokens": 25},
    "service_tier": "standard",
}
TEXT: dict[str, Any] = {"type": "text", "text": "Hello."}
LOOK: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": ANSWERED_BY,
    "content": [TEXT, LOOK],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": USAGE,
}


def event(kind: str, **fields: Any) -> bytes:
    """One event as it is sent."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, **content: Any) -> bytes:
    """A block begins."""
    return event("content_block_start", index=index, content_block=content)


def delta(index: int, kind: str, **fields: Any) -> bytes:
    """A piece of a block."""
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


START = event(
    "message_start",
    message=MESSAGE | {"content": [], "stop_reason": None, "usage": USAGE | {"output_tokens": 1}},
)
PING = event("ping")
THINKING = [
    block(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Hm."),
    delta(0, "signature_delta", signature="c2ln"),
    event("content_block_stop", index=0),
]
SAYING = [
    block(1, type="text", text=""),
    delta(1, "text_delta", text="Hel"),
    delta(1, "text_delta", text="lo."),
    event("content_block_stop", index=1),
]
CALLING = [
    block(2, type="tool_use", id="toolu_1", name="look", input={}),
    delta(2, "input_json_delta", partial_json='{"at": '),
    delta(2, "input_json_delta", partial_json='"x"}'),
    event("content_block_stop", index=2),
]
END = [
    event(
        "message_delta",
        delta={"stop_reason": "tool_use", "stop_sequence": None},
        usage={"output_tokens": 60, "output_tokens_details": {"thinking_tokens": 25}},
    ),
    event("message_stop"),
]
STREAM = [START, THINKING[0], PING, *THINKING[1:], *SAYING, *CALLING, *END]
ERROR = event("error", error={"type": "overloaded_error", "message": "no more"})
