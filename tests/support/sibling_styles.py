"""Ways to call SDKs on the base client of openai, each with what its span must say. Runs with every version of them.

As a program it takes the name of an SDK and prints what the installed version gives, as JSON:
`{style: [what is missing]}`, `null` for a style the version does not have.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from support import anthropic_wire as wire
from support import styles
from support.model_server import CHAT, STREAM, ModelServer, Reply, chunk
from support.styles import STREAMED, WHOLE, Style

REFUSED = Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="30")
BROKEN = Reply.json({"error": {"message": "broken"}}, 500, retry_after_ms="30")
TIMES = {"queue_time": 0.01, "prompt_time": 0.02, "completion_time": 0.03, "total_time": 0.06}

_USAGE = wire.USAGE | {
    "input_tokens": 100,
    "output_tokens": 6,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
_MESSAGE = wire.MESSAGE | {"content": [wire.TEXT], "stop_reason": "end_turn", "usage": _USAGE}
_MESSAGES = [
    wire.event("message_start", message=_MESSAGE | {"content": [], "stop_reason": None, "usage": _USAGE}),
    *wire.THINKING,
    *wire.SAYING,
    wire.event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 6}),
    wire.event("message_stop"),
]


@dataclass(frozen=True)
class Sdk:
    """An SDK of the family."""

    name: str
    """Of its distribution."""
    module: str
    client: str
    """Name of the class; `Async` goes before it."""
    path: str = "chat.completions.create"
    asked: dict[str, Any] = field(
        default_factory=lambda: {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
    )
    whole: Reply = field(default_factory=lambda: Reply.json(CHAT))
    streamed: Reply = field(default_factory=lambda: Reply.stream(STREAM))
    options: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """What its spans must say besides."""


def _groq() -> Sdk:
    usage = {**CHAT["usage"], **TIMES}  # type: ignore[dict-item]
    return Sdk(
        "groq",
        "groq",
        "Groq",
        whole=Reply.json(CHAT | {"usage": usage, "x_groq": {"id": "req_1"}}),
        streamed=Reply.stream(
            [*STREAM[:3], chunk({}, "stop", x_groq={"id": "r", "usage": usage}), STREAM[-1]]
        ),
        also=("times",),
    )


def _cerebras() -> Sdk:
    return Sdk(
        "cerebras-cloud-sdk",
        "cerebras.cloud.sdk",
        "Cerebras",
        whole=Reply.json(CHAT | {"time_info": TIMES}),
        streamed=Reply.stream(
            [*STREAM[:3], chunk({}, "stop", usage=CHAT["usage"], time_info=TIMES), STREAM[-1]]
        ),
        options={"warm_tcp_connection": False},
        also=("times",),
    )


SDKS: dict[str, Sdk] = {
    "anthropic": Sdk(
        "anthropic",
        "anthropic",
        "Anthropic",
        path="messages.create",
        asked={
            "model": wire.MODEL,
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "Say hello."}],
        },
        whole=Reply.json(_MESSAGE),
        streamed=Reply.stream(_MESSAGES),
    ),
    "groq": _groq(),
    "cerebras": _cerebras(),
    "together": Sdk("together", "together", "Together"),
}


def _method(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = getattr(client, name)
    return client


def _values(items: Any) -> list[Any]:
    return [item.model_dump() for item in items]


def styles_of(sdk: Sdk) -> tuple[Style, ...]:
    """All ways to call it that are tried."""
    module = importlib.import_module(sdk.module)
    owner, _, name = sdk.path.rpartition(".")
    of_raw = f"{owner}.with_raw_response.{name}"
    of_opened = f"{owner}.with_streaming_response.{name}"

    @contextlib.contextmanager
    def opened(server: ModelServer, **more: Any) -> Iterator[Any]:
        url = server.url.removesuffix("/v1")
        options = {"api_key": "secret-key", "max_retries": 2, "timeout": 5} | sdk.options | more
        with getattr(module, sdk.client)(base_url=url, **options) as client:
            yield client

    def sync(ask: Callable[[Any], Any], **more: Any) -> Callable[[ModelServer], Any]:
        def run(server: ModelServer) -> Any:
            with opened(server, **more) as client:
                return ask(client)

        return run

    def asynchronous(ask: Callable[[Any], Any]) -> Callable[[ModelServer], Any]:
        async def call(server: ModelServer) -> Any:
            url = server.url.removesuffix("/v1")
            options = {"api_key": "secret-key", "max_retries": 2, "timeout": 5} | sdk.options
            async with getattr(module, f"Async{sdk.client}")(base_url=url, **options) as client:
                return await ask(client)

        return lambda server: asyncio.run(call(server))

    def plain(client: Any) -> Any:
        return _method(client, sdk.path)(**sdk.asked).model_dump()

    async def plain_async(client: Any) -> Any:
        return (await _method(client, sdk.path)(**sdk.asked)).model_dump()

    def stream(client: Any) -> Any:
        return _values(_method(client, sdk.path)(**sdk.asked, stream=True))

    async def stream_async(client: Any) -> Any:
        return [item.model_dump() async for item in await _method(client, sdk.path)(**sdk.asked, stream=True)]

    def raw(client: Any) -> Any:
        answer = _method(client, of_raw)(**sdk.asked)
        return answer.status_code, answer.parse().model_dump()

    def raw_stream(client: Any) -> Any:
        return _values(_method(client, of_raw)(**sdk.asked, stream=True).parse())

    def streaming_response(client: Any) -> Any:
        with _method(client, of_opened)(**sdk.asked) as response:
            return response.status_code, response.json()

    def timeout(client: Any) -> Any:
        try:
            plain(client)
        except module.APITimeoutError as error:
            return str(error)
        return None

    def helper(client: Any) -> Any:
        with client.messages.stream(**sdk.asked) as events:
            return events.get_final_message().model_dump()

    async def helper_async(client: Any) -> Any:
        async with client.messages.stream(**sdk.asked) as events:
            return (await events.get_final_message()).model_dump()

    def beta(client: Any) -> Any:
        return client.beta.messages.create(**sdk.asked).model_dump()

    def beta_stream(client: Any) -> Any:
        return _values(client.beta.messages.create(**sdk.asked, stream=True))

    whole, streamed = (*WHOLE, *sdk.also), (*STREAMED, *sdk.also)
    slow = Reply(sdk.whole.body, headers=sdk.whole.headers, wait_s=0.6)
    found = (
        Style("plain", owner, (sdk.whole,), sync(plain), whole),
        Style("plain, async", owner, (sdk.whole,), asynchronous(plain_async), whole),
        Style("stream", owner, (sdk.streamed,), sync(stream), streamed),
        Style("stream, async", owner, (sdk.streamed,), asynchronous(stream_async), streamed),
        Style(
            "retries", owner, (REFUSED, BROKEN, sdk.whole), sync(plain), (*whole, "pauses"), ("429", "500")
        ),
        Style(
            "retries, async",
            owner,
            (REFUSED, BROKEN, sdk.whole),
            asynchronous(plain_async),
            (*whole, "pauses"),
            ("429", "500"),
        ),
        Style(
            "timeout",
            owner,
            (slow,),
            sync(timeout, timeout=0.1, max_retries=1),
            ("one span", "attempts", "error"),
            ("timeout", "timeout"),
        ),
        Style("raw response", of_raw, (sdk.whole,), sync(raw), whole),
        Style("raw stream", of_raw, (sdk.streamed,), sync(raw_stream), streamed),
        Style("streaming response", of_opened, (sdk.whole,), sync(streaming_response), whole),
    )
    if sdk.module != "anthropic":
        return found
    return (
        *found,
        Style("stream helper", "messages.stream", (sdk.streamed,), sync(helper), streamed),
        Style(
            "stream helper, async",
            "messages.stream",
            (sdk.streamed,),
            asynchronous(helper_async),
            streamed,
        ),
        Style("beta", "beta.messages", (sdk.whole,), sync(beta), whole),
        Style("beta, stream", "beta.messages", (sdk.streamed,), sync(beta_stream), streamed),
    )


def client_of(sdk: Sdk) -> Any:
    """A client that is not used."""
    module = importlib.import_module(sdk.module)
    return getattr(module, sdk.client)(api_key="x", base_url="http://127.0.0.1:1", **sdk.options)


def main(name: str) -> None:
    """Print what the installed version gives."""
    sdk = SDKS[name]
    base = importlib.import_module(f"{sdk.module}._base_client")
    client = client_of(sdk)
    found = {
        style.name: styles.missing(style, sdk.asked["model"]) if styles.has(client, style) else None
        for style in styles_of(sdk)
    }
    version = importlib.import_module("importlib.metadata").version(sdk.name)
    http = "httpx2" if hasattr(base, "httpx2") else "httpx"
    print(json.dumps({"sdk": name, "version": version, "http": http, "styles": found}))


if __name__ == "__main__":
    main(sys.argv[1])
