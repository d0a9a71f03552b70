"""Ways to call SDKs on the same base client as that of openai."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.twin_styles import CHAT, STREAM, TOOLS, Style, messages

MODEL = "claude-sonnet-5-5"
MESSAGES = "messages"


LOOK: list[dict[str, Any]] = [
    {
        "name": "look",
        "description": "Looks.",
        "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    }
]


def _asked(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {
        "model": MODEL,
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Say hello."}],
        **more,
    }


def _extras(**more: Any) -> Callable[[], dict[str, Any]]:
    return _asked(
        extra_body={"unheard_of": {"list": [1, 2]}},
        extra_headers={"x-mine": "1"},
        extra_query={"trace": "no"},
        **more,
    )


def _anthropic(name: str, take: str, call: Callable[..., Any], arguments: Any) -> Style:
    return Style(name, MESSAGES, take, call, arguments, client="anthropic")


ANTHROPIC_PLAIN: list[Style] = [
    _anthropic("create", "value", lambda c, **a: c.messages.create(**a), _asked(tools=LOOK)),
    _anthropic("beta", "value", lambda c, **a: c.beta.messages.create(**a), _asked(betas=["x-2026-01-01"])),
    _anthropic("extras", "value", lambda c, **a: c.messages.create(**a), _extras()),
    _anthropic("raw", "raw", lambda c, **a: c.messages.with_raw_response.create(**a), _asked()),
    _anthropic("opened", "opened", lambda c, **a: c.messages.with_streaming_response.create(**a), _asked()),
    _anthropic(
        "options",
        "value",
        lambda c, **a: c.with_options(max_retries=0, default_headers={"x-copy": "1"}).messages.create(**a),
        _asked(stop_sequences=["."]),
    ),
]
ANTHROPIC_STREAMED: list[Style] = [
    _anthropic("stream", "stream", lambda c, **a: c.messages.create(**a), _asked(**STREAM)),
    _anthropic("stream-extras", "stream", lambda c, **a: c.messages.create(**a), _extras(**STREAM)),
    _anthropic("stream-beta", "stream", lambda c, **a: c.beta.messages.create(**a), _asked(**STREAM)),
    _anthropic("stream-manager", "manager", lambda c, **a: c.messages.stream(**a), _asked(tools=LOOK)),
    _anthropic(
        "stream-raw",
        "raw stream",
        lambda c, **a: c.messages.with_raw_response.create(**a),
        _asked(**STREAM),
    ),
    _anthropic(
        "stream-lines",
        "lines",
        lambda c, **a: c.messages.with_streaming_response.create(**a),
        _asked(**STREAM),
    ),
]


def of(client: str) -> list[Style]:
    """Ways to call an SDK for chat completions that is on httpx."""

    def asked(**more: Any) -> Callable[[], dict[str, Any]]:
        return lambda: {"model": "m", "messages": messages(), **more}

    def style(name: str, take: str, call: Callable[..., Any], arguments: Any) -> Style:
        return Style(f"{client}-{name}", CHAT, take, call, arguments, client=client)

    return [
        style("create", "value", lambda c, **a: c.chat.completions.create(**a), asked(tools=TOOLS)),
        style("raw", "raw", lambda c, **a: c.chat.completions.with_raw_response.create(**a), asked()),
        style("stream", "stream", lambda c, **a: c.chat.completions.create(**a), asked(**STREAM)),
        style(
            "lines",
            "lines",
            lambda c, **a: c.chat.completions.with_streaming_response.create(**a),
            asked(**STREAM),
        ),
    ]
