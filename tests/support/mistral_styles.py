"""Ways to call mistralai."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.plain_client_styles import ASKED, base_of, refused, repeated, timeout
from support.styles import STREAMED, WHOLE, Style


def styles_of(module: Any) -> tuple[Style, ...]:
    """All that are tried.

    Args:
        module: The module with its clients.
    """
    answer: dict[str, Any] = CHAT | {"model": "mistral-small-latest"}
    whole, streamed = Reply.json(answer), Reply.stream(STREAM)
    utils = importlib.import_module(f"{module.__name__}.utils")
    asked: Any = {"model": "mistral-small", "messages": [{"role": "user", "content": ASKED}]}

    def client(server: ModelServer, repeats: bool = False, **more: Any) -> Any:
        if repeats:
            backoff = utils.BackoffStrategy(30, 100, 1.1, 20_000)
            more["retry_config"] = utils.RetryConfig("backoff", backoff, True)
        return module.Mistral(api_key="secret-key", server_url=base_of(server), **more)

    def plain(server: ModelServer, repeats: bool = False, **more: Any) -> Any:
        return client(server, repeats, **more).chat.complete(**asked).model_dump()

    def plain_async(server: ModelServer, repeats: bool = False) -> Any:
        async def call() -> Any:
            return (await client(server, repeats).chat.complete_async(**asked)).model_dump()

        return asyncio.run(call())

    def stream(server: ModelServer, repeats: bool = False) -> Any:
        held = client(server, repeats)
        return [event.data.model_dump() for event in held.chat.stream(**asked)]

    def stream_async(server: ModelServer, repeats: bool = False) -> Any:
        async def call() -> Any:
            held = client(server, repeats)
            return [event.data.model_dump() async for event in await held.chat.stream_async(**asked)]

        return asyncio.run(call())

    def agents(server: ModelServer) -> Any:
        answer = client(server).agents.complete(agent_id="a", messages=asked["messages"])
        return answer.model_dump()

    def fill(server: ModelServer) -> Any:
        held = client(server)
        return [event.data.model_dump() for event in held.fim.stream(model="mistral-small", prompt="def f(")]

    def embeddings(server: ModelServer) -> Any:
        return client(server).embeddings.create(model="mistral-embed", inputs=["one"]).model_dump()

    vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
    vectors = {"id": "e", "object": "list", "model": "mistral-embed", "data": [vector]}
    usage = {"prompt_tokens": 100, "total_tokens": 100, "completion_tokens": 0}
    return (
        Style("plain", "Mistral", (whole,), plain, WHOLE),
        Style("plain, async", "Mistral", (whole,), plain_async, WHOLE),
        Style("stream", "Mistral", (streamed,), stream, STREAMED),
        Style("stream, async", "Mistral", (streamed,), stream_async, STREAMED),
        repeated("retries", "Mistral", whole, lambda s: plain(s, True), WHOLE),
        repeated("retries, async", "Mistral", whole, lambda s: plain_async(s, True), WHOLE),
        repeated("retries, stream", "Mistral", streamed, lambda s: stream(s, True), STREAMED),
        repeated("retries, stream async", "Mistral", streamed, lambda s: stream_async(s, True), STREAMED),
        refused("Mistral", plain),
        timeout("Mistral", whole, lambda s: plain(s, timeout_ms=100)),
        Style("agents", "Mistral", (whole,), agents, ("one span", "tokens", "attempts", "finish")),
        Style("fill in the middle", "Mistral", (streamed,), fill, STREAMED),
        Style(
            "embeddings",
            "Mistral",
            (Reply.json(vectors | {"usage": usage}),),
            embeddings,
            ("one span", "input tokens", "attempts"),
        ),
    )
