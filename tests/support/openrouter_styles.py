"""Ways to call the SDK of OpenRouter, which is generated like that of Mistral."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.plain_client_styles import ASKED, BROKEN, refused, timeout
from support.styles import STREAMED, WHOLE, Style


def styles_of(module: Any) -> tuple[Style, ...]:
    """All that are tried.

    Args:
        module: The module with its clients.
    """
    answer: dict[str, Any] = CHAT | {"system_fingerprint": None}
    whole, streamed = Reply.json(answer), Reply.stream(STREAM)
    utils = importlib.import_module(f"{module.__name__}.utils")
    asked: Any = {"model": "vendor/model", "messages": [{"role": "user", "content": ASKED}]}

    def client(server: ModelServer, **more: Any) -> Any:
        repeats = utils.RetryConfig("backoff", utils.BackoffStrategy(30, 100, 1.1, 20_000), True)
        return module.OpenRouter(
            api_key="secret-key", server_url=server.url, **{"retry_config": repeats, **more}
        )

    def plain(server: ModelServer, **more: Any) -> Any:
        return client(server, **more).chat.send(**asked).model_dump()

    def impatient(server: ModelServer) -> Any:
        once = utils.RetryConfig("none", utils.BackoffStrategy(1, 1, 1.0, 1), False)
        return plain(server, timeout_ms=100, retry_config=once)

    def plain_async(server: ModelServer) -> Any:
        async def call() -> Any:
            return (await client(server).chat.send_async(**asked)).model_dump()

        return asyncio.run(call())

    def stream(server: ModelServer) -> Any:
        with client(server).chat.send(**asked, stream=True) as events:
            return [event.model_dump() for event in events]

    def stream_async(server: ModelServer) -> Any:
        async def call() -> Any:
            async with await client(server).chat.send_async(**asked, stream=True) as events:
                return [event.model_dump() async for event in events]

        return asyncio.run(call())

    def repeated(name: str, reply: Reply, call: Any, expects: tuple[str, ...]) -> Style:
        # Of refusals it repeats only those of the server's own failures.
        return Style(name, needs, (BROKEN, BROKEN, reply), call, (*expects, "pauses"), ("500", "500"))

    needs = "OpenRouter"
    return (
        Style("plain", needs, (whole,), plain, WHOLE),
        Style("plain, async", needs, (whole,), plain_async, WHOLE),
        Style("stream", needs, (streamed,), stream, STREAMED),
        Style("stream, async", needs, (streamed,), stream_async, STREAMED),
        repeated("retries", whole, plain, WHOLE),
        repeated("retries, async", whole, plain_async, WHOLE),
        repeated("retries, stream", streamed, stream, STREAMED),
        repeated("retries, stream async", streamed, stream_async, STREAMED),
        refused(needs, plain),
        timeout(needs, whole, impatient),
    )
