"""Ways to call cohere."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.model_server import ModelServer, Reply
from support.plain_client_styles import ASKED, base_of, refused, repeated, timeout
from support.styles import STREAMED, WHOLE, Style

_TOKENS = {
    "billed_units": {"input_tokens": 90, "output_tokens": 6},
    "tokens": {"input_tokens": 100, "output_tokens": 6},
}
COHERE = {
    "id": "c",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
    "usage": _TOKENS,
}
COHERE_V1 = {
    "response_id": "r",
    "generation_id": "g",
    "text": "Hello.",
    "chat_history": [],
    "finish_reason": "COMPLETE",
    "meta": {"api_version": {"version": "1"}} | _TOKENS,
}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


COHERE_EVENTS: list[bytes] = [
    _event(
        "message-start", id="c", delta={"message": {"role": "assistant", "content": [], "tool_calls": []}}
    ),
    _event("content-start", index=0, delta={"message": {"content": {"type": "text", "text": ""}}}),
    _event("content-delta", index=0, delta={"message": {"content": {"text": "Hel"}}}),
    _event("content-delta", index=0, delta={"message": {"content": {"text": "lo."}}}),
    _event("content-end", index=0),
    _event("message-end", delta={"finish_reason": "COMPLETE", "usage": _TOKENS}),
    b"data: [DONE]\n\n",
]
COHERE_V1_EVENTS: list[bytes] = [
    json.dumps(event).encode() + b"\n"
    for event in (
        {"event_type": "stream-start", "generation_id": "g", "is_finished": False},
        {"event_type": "text-generation", "text": "Hello.", "is_finished": False},
        {
            "event_type": "stream-end",
            "is_finished": True,
            "finish_reason": "COMPLETE",
            "response": COHERE_V1,
        },
    )
]


def styles_of(module: Any) -> tuple[Style, ...]:
    """All that are tried.

    Args:
        module: The module with its clients.
    """
    whole, streamed = Reply.json(COHERE), Reply.stream(COHERE_EVENTS)
    whole_v1 = Reply.json(COHERE_V1)
    streamed_v1 = Reply(
        COHERE_V1_EVENTS, headers={"content-type": "application/stream+json"}, framing="chunked"
    )
    model = "command-a-03-2025"
    asked: Any = {"model": model, "messages": [{"role": "user", "content": ASKED}]}
    asked_v1: Any = {"model": model, "message": ASKED}
    again: Any = {"request_options": {"max_retries": 2}}
    never: Any = {"request_options": {"max_retries": 0}}

    def client(name: str, server: ModelServer, **more: Any) -> Any:
        # Until there was a second version of the API, the URL named the version.
        url = base_of(server) if hasattr(module, "ClientV2") else server.url
        return getattr(module, name)("secret-key", base_url=url, **more)

    def plain(server: ModelServer, **more: Any) -> Any:
        return client("ClientV2", server).chat(**asked, **more).model_dump()

    def plain_async(server: ModelServer, **more: Any) -> Any:
        async def call() -> Any:
            return (await client("AsyncClientV2", server).chat(**asked, **more)).model_dump()

        return asyncio.run(call())

    def stream(server: ModelServer) -> Any:
        return [event.model_dump() for event in client("ClientV2", server).chat_stream(**asked)]

    def stream_async(server: ModelServer) -> Any:
        async def call() -> Any:
            events = client("AsyncClientV2", server).chat_stream(**asked)
            return [event.model_dump() async for event in events]

        return asyncio.run(call())

    def raw(server: ModelServer) -> Any:
        answer = client("ClientV2", server).with_raw_response.chat(**asked)
        return answer.data.model_dump()

    def raw_stream(server: ModelServer) -> Any:
        with client("ClientV2", server).with_raw_response.chat_stream(**asked) as answer:
            return [event.model_dump() for event in answer.data]

    def plain_v1(server: ModelServer, **more: Any) -> Any:
        answer = client("Client", server).chat(**asked_v1, **more)
        return answer.text, answer.finish_reason

    def plain_v1_async(server: ModelServer, **more: Any) -> Any:
        async def call() -> Any:
            return (await client("AsyncClient", server).chat(**asked_v1, **more)).text

        return asyncio.run(call())

    def stream_v1(server: ModelServer) -> Any:
        return [event.event_type for event in client("Client", server).chat_stream(**asked_v1)]

    v2 = "ClientV2.chat"
    # Answers do not say which model gave them.
    whole_says, streamed_says = (
        tuple("asked model" if what == "model" else what for what in says) for says in (WHOLE, STREAMED)
    )
    return (
        Style("plain", v2, (whole,), plain, whole_says),
        Style("plain, async", v2, (whole,), plain_async, whole_says),
        Style("stream", v2, (streamed,), stream, streamed_says),
        Style("stream, async", v2, (streamed,), stream_async, streamed_says),
        repeated("retries", v2, whole, lambda s: plain(s, **again), whole_says),
        repeated("retries, async", v2, whole, lambda s: plain_async(s, **again), whole_says),
        refused(v2, lambda s: plain(s, **never)),
        timeout(v2, whole, lambda s: client("ClientV2", s, timeout=0.1).chat(**asked)),
        Style("raw response", "ClientV2.with_raw_response", (whole,), raw, whole_says),
        Style("raw stream", "ClientV2.with_raw_response", (streamed,), raw_stream, streamed_says),
        Style("version 1", "Client.chat", (whole_v1,), plain_v1, whole_says),
        Style("version 1, stream", "Client.chat_stream", (streamed_v1,), stream_v1, streamed_says),
        repeated("version 1, retries", "Client.chat", whole_v1, lambda s: plain_v1(s, **again), whole_says),
        repeated(
            "version 1, retries async",
            "Client.chat",
            whole_v1,
            lambda s: plain_v1_async(s, **again),
            whole_says,
        ),
    )
