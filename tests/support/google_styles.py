"""Ways to call google-genai."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.model_server import ModelServer, Reply
from support.plain_client_styles import ASKED, base_of, refused, repeated, timeout
from support.styles import STREAMED, WHOLE, Style

MODEL = "gemini-2.5-flash"
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Hello."}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 6, "totalTokenCount": 106},
    "modelVersion": "gemini-2.5-flash-001",
    "responseId": "r",
}
_INTERACTION = {
    "id": "v1_x",
    "object": "interaction",
    "model": MODEL,
    "status": "completed",
    "created": "2026-11-01T00:00:00Z",
    "updated": "2026-11-01T00:00:00Z",
    "role": "model",
    "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Hello."}]}],
    "outputs": [{"type": "text", "text": "Hello."}],
    "usage": {"total_input_tokens": 100, "total_output_tokens": 6, "total_tokens": 106},
}


def gemini_pieces() -> list[bytes]:
    """A stream of an answer."""
    last = GEMINI["candidates"][0]  # type: ignore[index]
    begun = {"content": last["content"]}
    pieces = [GEMINI | {"candidates": [one]} for one in (begun, begun, last)]
    return [f"data: {json.dumps(piece)}\r\n\r\n".encode() for piece in pieces]


def styles_of(genai: Any) -> tuple[Style, ...]:
    """All that are tried.

    Args:
        genai: The module with its clients.
    """
    whole, streamed = Reply.json(GEMINI), Reply.stream(gemini_pieces())

    def client(server: ModelServer, tries: int = 0, **more: Any) -> Any:
        options: dict[str, Any] = {"base_url": base_of(server), "timeout": 20_000} | more
        if tries:
            retry = genai.types.HttpRetryOptions(attempts=tries, initial_delay=0.03, jitter=0.0)
            options["retry_options"] = retry
        return genai.Client(api_key="secret-key", http_options=options)

    def plain(server: ModelServer, tries: int = 0, **more: Any) -> Any:
        held = client(server, tries, **more)
        answer = held.models.generate_content(model=MODEL, contents=ASKED)
        return answer.text, answer.usage_metadata

    def plain_async(server: ModelServer, tries: int = 0, **more: Any) -> Any:
        async def call() -> Any:
            held = client(server, tries, **more)
            return await held.aio.models.generate_content(model=MODEL, contents=ASKED)

        answer = asyncio.run(call())
        return answer.text, answer.usage_metadata

    def stream(server: ModelServer, tries: int = 0) -> Any:
        held = client(server, tries)
        chunks = held.models.generate_content_stream(model=MODEL, contents=ASKED)
        return [(chunk.text, chunk.usage_metadata) for chunk in chunks]

    def stream_async(server: ModelServer, tries: int = 0) -> Any:
        async def call() -> Any:
            held = client(server, tries)
            chunks = held.aio.models.generate_content_stream(model=MODEL, contents=ASKED)
            chunks = await chunks if asyncio.iscoroutine(chunks) else chunks
            return [(chunk.text, chunk.usage_metadata) async for chunk in chunks]

        return asyncio.run(call())

    def chat(server: ModelServer) -> Any:
        held = client(server)
        return held.chats.create(model=MODEL).send_message(ASKED).text

    def interaction(server: ModelServer) -> Any:
        held = client(server)
        return held.interactions.create(model=MODEL, input=ASKED).id

    def interaction_async(server: ModelServer) -> Any:
        async def call() -> Any:
            held = client(server)
            return (await held.aio.interactions.create(model=MODEL, input=ASKED)).id

        return asyncio.run(call())

    def embeddings(server: ModelServer) -> Any:
        held = client(server)
        return held.models.embed_content(model="gemini-embedding-001", contents=["one"]).embeddings[0].values

    once = Reply.json({"embedding": {"values": [0.5]}, "embeddings": [{"values": [0.5]}]})
    retry = "types.HttpRetryOptions"
    interacted = ("one span", "tokens", "attempts")
    return (
        Style("plain", "Client", (whole,), plain, WHOLE),
        Style("plain, async", "Client", (whole,), plain_async, WHOLE),
        Style("stream", "Client", (streamed,), stream, STREAMED),
        Style("stream, async", "Client", (streamed,), stream_async, STREAMED),
        repeated("retries", retry, whole, lambda s: plain(s, 3), WHOLE),
        repeated("retries, async", retry, whole, lambda s: plain_async(s, 3), WHOLE),
        repeated("retries, stream", retry, streamed, lambda s: stream(s, 3), STREAMED),
        repeated("retries, stream async", retry, streamed, lambda s: stream_async(s, 3), STREAMED),
        refused("Client", plain),
        timeout("Client", whole, lambda s: plain(s, timeout=100)),
        Style("chats", "Client", (whole,), chat, WHOLE),
        Style("embeddings", "Client", (once,), embeddings, ("one span", "attempts")),
        Style("interactions", "Client.interactions", (Reply.json(_INTERACTION),), interaction, interacted),
        Style(
            "interactions, async",
            "Client.interactions",
            (Reply.json(_INTERACTION),),
            interaction_async,
            interacted,
        ),
    )
