"""Every way to call the openai SDK: what the program asks, and how it takes the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

MODEL = "gpt-4o-mini"


class Said(BaseModel):
    """What answers are parsed into."""

    text: str


def messages() -> list[dict[str, Any]]:
    """What a chat begins with."""
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]


TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string"}},
                "required": ["at"],
                "additionalProperties": False,
            },
        },
    }
]


@dataclass(frozen=True)
class Style:
    """One way to call."""

    name: str
    wire: str
    """`chat`, `responses`, `embeddings`, `completions` or `messages`."""
    take: str
    """How the result is taken: `value`, `raw`, `opened` (a response to read in a `with` block), `lines`
    (the same, line by line), `stream`, `raw stream` or `manager`."""
    call: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    """Made anew for every call, and compared with a second set afterwards."""
    module_level: bool = False
    client: str = "own"
    """`azure`, `legacy` for one on httpx instead of httpx2, or the name of another SDK."""

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.take in ("stream", "raw stream", "manager", "lines")


def _chat(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"model": MODEL, "messages": messages(), **more}


def _input(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"model": MODEL, "input": [{"role": "user", "content": "Say hello."}], **more}


def _extras(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {
        "model": MODEL,
        "messages": messages(),
        "extra_body": {"top_k": 3, "deep": {"list": [1, 2]}},
        "extra_headers": {"x-mine": "1", "Authorization": "Bearer other"},
        "extra_query": {"trace": "no"},
        **more,
    }


def _generated(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"model": MODEL, "messages": (one for one in messages()), **more}


def _post(client: Any, **arguments: Any) -> Any:
    """The untyped way to an endpoint."""
    return client.post("/chat/completions", body=arguments, cast_to=dict[str, Any])


CHAT, RESPONSES, STREAM = "chat", "responses", {"stream": True}

PLAIN: list[Style] = [
    Style("create", CHAT, "value", lambda c, **a: c.chat.completions.create(**a), _chat(tools=TOOLS)),
    Style(
        "parse",
        CHAT,
        "value",
        lambda c, **a: c.chat.completions.parse(**a),
        _chat(response_format=Said, tools=TOOLS),
    ),
    Style("raw", CHAT, "raw", lambda c, **a: c.chat.completions.with_raw_response.create(**a), _chat()),
    Style(
        "opened",
        CHAT,
        "opened",
        lambda c, **a: c.chat.completions.with_streaming_response.create(**a),
        _chat(),
    ),
    Style(
        "options",
        CHAT,
        "value",
        lambda c, **a: c.with_options(max_retries=0, default_headers={"x-copy": "1"}).chat.completions.create(
            **a
        ),
        _chat(temperature=0.5),
    ),
    Style("extras", CHAT, "value", lambda c, **a: c.chat.completions.create(**a), _extras()),
    Style("generated", CHAT, "value", lambda c, **a: c.chat.completions.create(**a), _generated()),
    Style("post", CHAT, "value", _post, _chat()),
    Style("module", CHAT, "value", lambda c, **a: c.chat.completions.create(**a), _chat(), module_level=True),
    Style(
        "completions",
        "completions",
        "value",
        lambda c, **a: c.completions.create(**a),
        lambda: {"model": MODEL, "prompt": "Say hello."},
    ),
    Style(
        "embeddings",
        "embeddings",
        "value",
        lambda c, **a: c.embeddings.create(**a),
        lambda: {"model": MODEL, "input": ["one", "two"]},
    ),
    Style(
        "embeddings-raw",
        "embeddings",
        "raw",
        lambda c, **a: c.embeddings.with_raw_response.create(**a),
        lambda: {"model": MODEL, "input": "one", "encoding_format": "float"},
    ),
    Style("responses", RESPONSES, "value", lambda c, **a: c.responses.create(**a), _input()),
    Style(
        "responses-parse", RESPONSES, "value", lambda c, **a: c.responses.parse(**a), _input(text_format=Said)
    ),
    Style(
        "responses-raw", RESPONSES, "raw", lambda c, **a: c.responses.with_raw_response.create(**a), _input()
    ),
    Style(
        "responses-opened",
        RESPONSES,
        "opened",
        lambda c, **a: c.responses.with_streaming_response.create(**a),
        _input(),
    ),
]

OTHER_CLIENTS: list[Style] = [
    Style(
        f"{name}-{client}",
        CHAT,
        "stream" if more else "value",
        lambda c, **a: c.chat.completions.create(**a),
        _chat(**more),
        client=client,
    )
    for client in ("azure", "legacy")
    for name, more in (("create", {}), ("stream", STREAM))
]
"""Besides the usual client; without the outcomes that need a transport or a hook of httpx2."""

STREAMED: list[Style] = [
    Style(
        "stream",
        CHAT,
        "stream",
        lambda c, **a: c.chat.completions.create(**a),
        _chat(**STREAM, stream_options={"include_usage": True}),
    ),
    Style(
        "stream-manager",
        CHAT,
        "manager",
        lambda c, **a: c.chat.completions.stream(**a),
        _chat(response_format=Said),
    ),
    Style(
        "stream-raw",
        CHAT,
        "raw stream",
        lambda c, **a: c.chat.completions.with_raw_response.create(**a),
        _chat(**STREAM),
    ),
    Style(
        "stream-lines",
        CHAT,
        "lines",
        lambda c, **a: c.chat.completions.with_streaming_response.create(**a),
        _chat(**STREAM),
    ),
    Style(
        "stream-options",
        CHAT,
        "stream",
        lambda c, **a: c.with_options(timeout=c.timeout, max_retries=0).chat.completions.create(**a),
        _chat(**STREAM),
    ),
    Style("stream-extras", CHAT, "stream", lambda c, **a: c.chat.completions.create(**a), _extras(**STREAM)),
    Style(
        "stream-generated",
        CHAT,
        "stream",
        lambda c, **a: c.chat.completions.create(**a),
        _generated(**STREAM),
    ),
    Style(
        "stream-module",
        CHAT,
        "stream",
        lambda c, **a: c.chat.completions.create(**a),
        _chat(**STREAM),
        module_level=True,
    ),
    Style(
        "stream-completions",
        "completions",
        "stream",
        lambda c, **a: c.completions.create(**a),
        lambda: {"model": MODEL, "prompt": "Say hello.", **STREAM},
    ),
    Style("stream-responses", RESPONSES, "stream", lambda c, **a: c.responses.create(**a), _input(**STREAM)),
    Style("stream-responses-manager", RESPONSES, "manager", lambda c, **a: c.responses.stream(**a), _input()),
    Style(
        "stream-responses-raw",
        RESPONSES,
        "raw stream",
        lambda c, **a: c.responses.with_raw_response.create(**a),
        _input(**STREAM),
    ),
]
