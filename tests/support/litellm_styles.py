"""Ways to call several providers through LiteLLM, each with what its span must say. Runs with many versions of it.

As a program it prints what the installed version gives, as JSON: `{style: [what is missing]}`, `null` for a style the
version does not have.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from typing import Any

from support import litellm_calls, styles
from support.model_server import ModelServer, Reply
from support.styles import Style

WHOLE = ("one span", "asked model", "tokens", "attempts", "finish")
STREAMED = (*WHOLE, "first token", "end of stream")
REFUSED = Reply.json({"error": {"message": "slow", "type": "rate_limit_error"}}, 429)


def _seen(result: Any) -> Any:
    """What the program got, without ids and clocks."""
    return [(type(part).__name__, part.choices[0].model_dump()) for part in result if part.choices]


def _sync(provider: str, **more: Any) -> Callable[[ModelServer], Any]:
    def run(server: ModelServer) -> Any:
        litellm = litellm_calls.library()
        try:
            result = litellm.completion(**litellm_calls.arguments(provider, server.url), **more)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
        return _seen(result if more.get("stream") else [result])

    return run


def _async(provider: str, **more: Any) -> Callable[[ModelServer], Any]:
    async def ask(server: ModelServer) -> Any:
        litellm = litellm_calls.library()
        try:
            result = await litellm.acompletion(**litellm_calls.arguments(provider, server.url), **more)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
        return _seen([part async for part in result] if more.get("stream") else [result])

    return lambda server: litellm_calls.run(ask(server))


def styles_of(provider: str) -> tuple[Style, ...]:
    """The ways to call it that are tried for one provider."""
    whole, twice = litellm_calls.good(provider, stream=False), ("429", "429")
    found = [
        Style(provider, "completion", (whole,), _sync(provider), WHOLE),
        Style(f"{provider}, async", "acompletion", (whole,), _async(provider), WHOLE),
    ]
    if provider in litellm_calls.STREAMED:
        pieces = litellm_calls.good(provider, stream=True)
        found += [
            Style(f"{provider}, stream", "completion", (pieces,), _sync(provider, stream=True), STREAMED),
            Style(
                f"{provider}, stream, async",
                "acompletion",
                (pieces,),
                _async(provider, stream=True),
                STREAMED,
            ),
        ]
    if provider in ("anthropic", "openai"):
        replies = (REFUSED, REFUSED, whole)
        found += [
            Style(
                f"{provider}, retries", "completion", replies, _sync(provider, num_retries=3), WHOLE, twice
            ),
            Style(
                f"{provider}, retries, async",
                "acompletion",
                replies,
                _async(provider, num_retries=3),
                WHOLE,
                twice,
            ),
        ]
    refusal = ("one span", "attempts", "refusal")
    found.append(
        Style(
            f"{provider}, refusal",
            "completion",
            (REFUSED,),
            _sync(provider, max_retries=0),
            refusal,
            ("429",),
        )
    )
    return tuple(found)


def main() -> None:
    """Print what the installed version gives."""
    litellm = litellm_calls.library()
    found = {}
    for provider, model in litellm_calls.MODELS.items():
        asked = model.rpartition("/")[2]
        for style in styles_of(provider):
            found[style.name] = styles.missing(style, asked) if styles.has(litellm, style) else None
    version = importlib.metadata.version("litellm")
    print(json.dumps({"sdk": "litellm", "version": version, "http": "several", "styles": found}))


if __name__ == "__main__":
    main()
