"""Ways to call ollama."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support.model_server import ModelServer, Reply
from support.plain_client_styles import ASKED, base_of, refused, timeout
from support.styles import STREAMED, WHOLE, Style

OLLAMA = {
    "model": "llama3.2",
    "created_at": "2026-11-01T00:00:00Z",
    "message": {"role": "assistant", "content": "Hello."},
    "done": True,
    "done_reason": "stop",
    "total_duration": 60_000_000,
    "load_duration": 10_000_000,
    "prompt_eval_count": 100,
    "prompt_eval_duration": 20_000_000,
    "eval_count": 6,
    "eval_duration": 30_000_000,
}


def ollama_lines() -> list[bytes]:
    """A stream of an answer."""
    begun = {name: OLLAMA[name] for name in ("model", "created_at", "message")} | {"done": False}
    return [json.dumps(piece).encode() + b"\n" for piece in (begun, begun, OLLAMA)]


def styles_of(module: Any) -> tuple[Style, ...]:
    """All that are tried.

    Args:
        module: The module with its clients.
    """
    whole = Reply.json(OLLAMA)
    streamed = Reply(ollama_lines(), headers={"content-type": "application/x-ndjson"}, framing="chunked")
    generated = Reply.json(
        {key: value for key, value in OLLAMA.items() if key != "message"} | {"response": "Hi"}
    )
    asked: Any = {"model": "llama3.2", "messages": [{"role": "user", "content": ASKED}]}

    def plain(server: ModelServer, **more: Any) -> Any:
        return module.Client(host=base_of(server), **more).chat(**asked)["message"]["content"]

    def plain_async(server: ModelServer) -> Any:
        async def call() -> Any:
            return (await module.AsyncClient(host=base_of(server)).chat(**asked))["message"]["content"]

        return asyncio.run(call())

    def stream(server: ModelServer) -> Any:
        chunks = module.Client(host=base_of(server)).chat(**asked, stream=True)
        return [chunk["message"]["content"] for chunk in chunks]

    def stream_async(server: ModelServer) -> Any:
        async def call() -> Any:
            chunks = await module.AsyncClient(host=base_of(server)).chat(**asked, stream=True)
            return [chunk["message"]["content"] async for chunk in chunks]

        return asyncio.run(call())

    def generate(server: ModelServer) -> Any:
        return module.Client(host=base_of(server)).generate(model="llama3.2", prompt=ASKED)["response"]

    timed = (*WHOLE, "times")
    return (
        Style("plain", "Client", (whole,), plain, timed),
        Style("plain, async", "Client", (whole,), plain_async, timed),
        Style("stream", "Client", (streamed,), stream, (*STREAMED, "times")),
        Style("stream, async", "Client", (streamed,), stream_async, (*STREAMED, "times")),
        refused("Client", plain),
        timeout("Client", whole, lambda s: plain(s, timeout=0.1)),
        Style("generate", "Client", (generated,), generate, timed),
    )
