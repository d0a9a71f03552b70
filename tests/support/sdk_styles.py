"""Ways to call the openai SDK, each with what its span must say. Runs with every version of the SDK.

As a program it prints what the installed version gives, as JSON: `{style: [what is missing]}`, `null` for a
style the version does not have.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
from support import styles
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.styles import STREAMED, WHOLE, Style

MODEL = "gpt-4o-mini"
MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
REFUSED = Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="30")
BROKEN = Reply.json({"error": {"message": "broken"}}, 500, retry_after_ms="30")
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000,
    "model": MODEL,
    "status": "completed",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 106,
    },
}


def _event(number: int, kind: str, **fields: Any) -> bytes:
    body = {"type": kind, "sequence_number": number, **fields}
    return f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


_PLACE: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_PART: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
_ITEM: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "in_progress",
    "content": [],
}
RESPONSE_STREAM = [
    _event(0, "response.created", response=RESPONSE | {"status": "in_progress", "output": [], "usage": None}),
    _event(1, "response.output_item.added", output_index=0, item=_ITEM),
    _event(2, "response.content_part.added", part=_PART, **_PLACE),
    _event(3, "response.output_text.delta", delta="Hello.", logprobs=[], **_PLACE),
    _event(4, "response.output_text.done", text="Hello.", logprobs=[], **_PLACE),
    _event(5, "response.content_part.done", part=_PART | {"text": "Hello."}, **_PLACE),
    _event(6, "response.output_item.done", output_index=0, item=RESPONSE["output"][0]),  # type: ignore[index]
    _event(7, "response.completed", response=RESPONSE),
]
EMBEDDING = {
    "object": "list",
    "data": [{"object": "embedding", "embedding": [0.5], "index": 0}],
    "model": "e-1",
    "usage": {"prompt_tokens": 100, "total_tokens": 100},
}


def _options(**more: Any) -> dict[str, Any]:
    return {"api_key": "secret-key", "max_retries": 2, "timeout": 5} | more


@contextlib.contextmanager
def _sync(server: ModelServer, **more: Any) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.url, **_options(**more)) as client:
        yield client


def _call(ask: Callable[[Any], Any], **more: Any) -> Callable[[ModelServer], Any]:
    def run(server: ModelServer) -> Any:
        with _sync(server, **more) as client:
            return ask(client)

    return run


def _call_async(ask: Callable[[Any], Any], **more: Any) -> Callable[[ModelServer], Any]:
    def run(server: ModelServer) -> Any:
        async def call() -> Any:
            async with openai.AsyncOpenAI(base_url=server.url, **_options(**more)) as client:
                return await ask(client)

        return asyncio.run(call())

    return run


def _chat(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(model=MODEL, messages=MESSAGES, **more)


def _values(items: Any) -> list[Any]:
    return [item.model_dump() for item in items]


async def _plain_async(client: Any) -> Any:
    return (await _chat(client)).model_dump()


async def _stream_async(client: Any) -> Any:
    return [chunk.model_dump() async for chunk in await _chat(client, stream=True)]


def _raw(client: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES)
    return raw.status_code, raw.parse().model_dump()


def _raw_stream(client: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=True)
    return raw.status_code, _values(raw.parse())


def _open_response(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(model=MODEL, messages=MESSAGES) as response:
        return response.read()


def _timeout(client: Any) -> Any:
    try:
        _chat(client)
    except openai.APITimeoutError as error:
        return type(error), type(error.__cause__)


def _completions_of(client: Any) -> Any:
    """Helpers that later versions have beside `create` are under `beta` in earlier ones."""
    plain = client.chat.completions
    return plain if hasattr(plain, "parse") else client.beta.chat.completions


def _parsed(client: Any) -> Any:
    answer = _completions_of(client).parse(model=MODEL, messages=MESSAGES)
    return answer.choices[0].message.content, answer.usage.model_dump()


def _managed_stream(client: Any) -> Any:
    with _completions_of(client).stream(model=MODEL, messages=MESSAGES) as events:
        return events.get_final_completion().choices[0].message.content


async def _managed_stream_async(client: Any) -> Any:
    async with _completions_of(client).stream(model=MODEL, messages=MESSAGES) as events:
        return (await events.get_final_completion()).choices[0].message.content


def _responses_managed(client: Any) -> Any:
    with client.responses.stream(model=MODEL, input="hi") as events:
        return events.get_final_response().output_text


def _azure(server: ModelServer) -> Any:
    options = _options(api_version="2024-10-21", azure_endpoint=server.url.removesuffix("/v1"))
    with openai.AzureOpenAI(**options) as client:
        return _chat(client).model_dump(), server.sent[-1].path


def _module_client(server: ModelServer) -> Any:
    before = openai.api_key, openai.base_url
    openai.api_key, openai.base_url = "secret-key", server.url + "/"
    try:
        return openai.chat.completions.create(model=MODEL, messages=MESSAGES).model_dump()  # type: ignore[arg-type]
    finally:
        openai.api_key, openai.base_url = before
        openai._reset_client()  # type: ignore[no-untyped-call]


STYLES: tuple[Style, ...] = (
    Style("chat", "chat", (Reply.json(CHAT),), _call(lambda c: _chat(c).model_dump()), WHOLE),
    Style("chat, async", "chat", (Reply.json(CHAT),), _call_async(_plain_async), WHOLE),
    Style(
        "stream", "chat", (Reply.stream(STREAM),), _call(lambda c: _values(_chat(c, stream=True))), STREAMED
    ),
    Style("stream, async", "chat", (Reply.stream(STREAM),), _call_async(_stream_async), STREAMED),
    Style(
        "retries",
        "chat",
        (REFUSED, BROKEN, Reply.json(CHAT)),
        _call(lambda c: _chat(c).model_dump()),
        (*WHOLE, "pauses"),
        ("429", "500"),
    ),
    Style(
        "retries, async",
        "chat",
        (REFUSED, BROKEN, Reply.json(CHAT)),
        _call_async(_plain_async),
        (*WHOLE, "pauses"),
        ("429", "500"),
    ),
    Style(
        "timeout",
        "chat",
        (Reply(json.dumps(CHAT).encode(), wait_s=0.6),),
        _call(_timeout, timeout=0.1, max_retries=1),
        ("one span", "attempts", "error"),
        ("timeout", "timeout"),
    ),
    Style("raw response", "chat", (Reply.json(CHAT),), _call(_raw), WHOLE),
    Style("raw stream", "chat", (Reply.stream(STREAM),), _call(_raw_stream), STREAMED),
    Style("streaming response", "chat", (Reply.json(CHAT),), _call(_open_response), WHOLE),
    Style("parse helper", "chat", (Reply.json(CHAT),), _call(_parsed), WHOLE),
    Style("stream helper", "chat", (Reply.stream(STREAM),), _call(_managed_stream), STREAMED),
    Style(
        "stream helper, async", "chat", (Reply.stream(STREAM),), _call_async(_managed_stream_async), STREAMED
    ),
    Style(
        "responses",
        "responses",
        (Reply.json(RESPONSE),),
        _call(lambda c: c.responses.create(model=MODEL, input="hi").model_dump()),
        WHOLE,
    ),
    Style(
        "responses, stream",
        "responses",
        (Reply.stream(RESPONSE_STREAM),),
        _call(lambda c: _values(c.responses.create(model=MODEL, input="hi", stream=True))),
        STREAMED,
    ),
    Style(
        "responses, stream helper",
        "responses.stream",
        (Reply.stream(RESPONSE_STREAM),),
        _call(_responses_managed),
        STREAMED,
    ),
    Style(
        "embeddings",
        "embeddings",
        (Reply.json(EMBEDDING),),
        _call(lambda c: c.embeddings.create(model="e-1", input="hi", encoding_format="float").model_dump()),
        ("one span", "attempts", "input tokens"),
    ),
    Style(
        "with_options",
        "chat",
        (REFUSED, Reply.json(CHAT)),
        _call(lambda c: _chat(c.with_options(max_retries=1)).model_dump(), max_retries=0),
        (*WHOLE, "pauses"),
        ("429",),
    ),
    Style("Azure", "chat", (Reply.json(CHAT),), _azure, (*WHOLE, "Azure as provider")),
    Style("module-level client", "chat", (Reply.json(CHAT),), _module_client, WHOLE),
)


def has(style: Style) -> bool:
    """Whether the installed version has this way to call."""
    return styles.has(openai.OpenAI(api_key="x"), style)


def missing(style: Style) -> list[str]:
    """What a call of a style lacks."""
    return styles.missing(style, MODEL)


def main() -> None:
    """Print what the installed version gives."""
    http = "httpx2" if hasattr(importlib.import_module("openai._base_client"), "httpx2") else "httpx"
    found = {style.name: missing(style) if has(style) else None for style in STYLES}
    print(json.dumps({"version": openai.__version__, "http": http, "styles": found}))


if __name__ == "__main__":
    main()
