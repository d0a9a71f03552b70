"""Calls of the SDK of openai in few words, for rows of the catalogue of failures."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import openai
from opentelemetry import trace
from support.model_server import CHAT, ModelServer, Reply

import agentprof
from agentprof import attributes

MODEL = "gpt-4o-mini"
MESSAGES: Any = [{"role": "user", "content": "hi"}]
INPUT_USD, OUTPUT_USD = Decimal("0.15") / 1_000_000, Decimal("0.60") / 1_000_000
"""Of one token of the model in the table."""


def async_client(server: ModelServer) -> openai.AsyncOpenAI:
    """A client of the endpoint that repeats what failed."""
    return openai.AsyncOpenAI(base_url=server.url, api_key="x", max_retries=2, timeout=5)


def chat(to: Any, **more: Any) -> Any:
    """A chat, with more arguments."""
    return to.chat.completions.create(model=MODEL, messages=MESSAGES, **more)


def using(**usage: Any) -> Reply:
    """A whole answer with this usage."""
    return Reply.json(CHAT | {"usage": usage})


def summed(work: Callable[[], object]) -> dict[str, Any]:
    """The summary of a task that does something."""
    with agentprof.task("t") as task:
        work()
    return task.summary().to_dict()


def repeat_as_another_scope(
    response_id: str | None, tokens: tuple[int, int] | None, scope: str = "another"
) -> Any:
    """A span of the same call as another instrumentation would make it."""
    tracer = trace.get_tracer(scope, tracer_provider=_provider())
    span = tracer.start_span(
        "chat again", attributes={attributes.OPERATION: "chat", attributes.REQUEST_MODEL: MODEL}
    )
    if response_id is not None:
        span.set_attribute(attributes.RESPONSE_ID, response_id)
    if tokens is not None:
        span.set_attributes(
            dict(zip((attributes.INPUT_TOKENS, attributes.OUTPUT_TOKENS), tokens, strict=True))
        )
    return span


def _provider() -> Any:
    from agentprof import _runtime

    runtime = _runtime.active()
    assert runtime is not None
    return runtime.settings.tracer_provider
