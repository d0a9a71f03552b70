"""A way to call an SDK, what its span must say, and what of that is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from support.model_server import ModelServer, Reply

from agentprof import _guard, attributes
from agentprof.testing import capture

WHOLE = ("one span", "model", "tokens", "attempts", "finish")
STREAMED = (*WHOLE, "first token", "end of stream")

_GOOD = ("stop", "completed", "end_turn", "STOP", "COMPLETE")
"""Finish reasons of answers that came to their end."""


@dataclass(frozen=True)
class Style:
    """One way to call."""

    name: str
    needs: str
    """Attribute of a client without which a version does not have it."""
    replies: tuple[Reply, ...]
    run: Callable[[ModelServer], Any]
    expects: tuple[str, ...]
    """What must be captured: keys of what is checked."""
    failed: tuple[str, ...] = ()
    """Statuses of the attempts that failed."""
    error: str = "APITimeoutError"
    """What the program gets where it gets no answer."""


def has(client: Any, style: Style) -> bool:
    """Whether a client has this way to call."""
    for name in style.needs.split("."):
        if not hasattr(client, name):
            return False
        client = getattr(client, name)
    return True


def _checks(style: Style, model: str, spans: list[ReadableSpan]) -> dict[str, bool]:
    said = dict(spans[0].attributes or {}) if spans else {}
    failed = said.get(attributes.ATTEMPT_STATUS, ())
    pauses = said.get(attributes.ATTEMPT_BACKOFF, ())
    return {
        "one span": len(spans) == 1,
        "model": said.get(attributes.REQUEST_MODEL) == model and attributes.RESPONSE_MODEL in said,
        "asked model": said.get(attributes.REQUEST_MODEL) == model,
        "tokens": (said.get(attributes.INPUT_TOKENS), said.get(attributes.OUTPUT_TOKENS)) == (100, 6),
        "input tokens": said.get(attributes.INPUT_TOKENS) == 100,
        "attempts": said.get(attributes.ATTEMPTS) == len(style.failed) + _is_answered(style)
        and failed == style.failed,
        "pauses": bool(pauses) and all(0.025 <= pause < 3 for pause in pauses),  # type: ignore[union-attr, operator]
        "finish": said.get(attributes.FINISH_REASONS) in [(reason,) for reason in _GOOD],
        "first token": attributes.FIRST_TOKEN in said,
        "end of stream": said.get(attributes.STREAM_END) == "complete",
        "error": said.get(attributes.ERROR_TYPE) == style.error,
        "refusal": attributes.ERROR_TYPE in said,
        "Azure as provider": said.get(attributes.PROVIDER) == "azure.ai.openai",
        "times": said.get(attributes.PHASE_SOURCE + "queue") == "reported",
    }


def _is_answered(style: Style) -> bool:
    return not {"error", "refusal"}.intersection(style.expects)


def missing(style: Style, model: str) -> list[str]:
    """What a call of a style lacks: in its span, or because the program got something else than without us."""

    def run() -> Any:
        with ModelServer() as server:
            server.replies = list(style.replies)
            return style.run(server)

    failures = _guard.counts()
    plain = run()
    with capture() as captured:
        watched = run()
    checks = _checks(style, model, captured.spans)
    lacking = [name for name in style.expects if not checks[name]]
    if plain != watched:
        lacking.append("the same answer")
    if _guard.counts() != failures:
        lacking.append("no failure inside")
    return lacking
