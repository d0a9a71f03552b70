"""The floor: one hand-written OpenTelemetry SDK span around each call, with 15 attributes or more."""

from __future__ import annotations

import functools
import time
from typing import Any

from opentelemetry.trace import Span, SpanKind, use_span

PLAIN = {"gen_ai.request.max_tokens": 0, "gen_ai.request.temperature": 1.0}
LEAST = 13
"""Attributes of a span without the plain ones."""


def enable(provider: Any, attributes: int = LEAST + len(PLAIN)) -> None:
    """Patch the SDK.

    Args:
        attributes: Of each span, `LEAST` or more; those beyond what is usual are numbers and short texts.
    """
    from openai.resources.chat.completions import AsyncCompletions, Completions
    from openai.resources.responses import AsyncResponses, Responses

    tracer = provider.get_tracer("bare-span")
    more = PLAIN | {f"bench.{i}": i if i % 2 else f"text {i}" for i in range(max(attributes - LEAST, 0))}
    more = dict(list(more.items())[: attributes - LEAST])

    def start(operation: str, kwargs: dict) -> Span:
        model = kwargs["model"]
        return tracer.start_span(
            f"{operation} {model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.request.stream": bool(kwargs.get("stream")),
                "server.address": "bench.invalid",
                "server.port": 80,
            },
        )

    def finish(span: Span, answer: Any, began: float, first: float) -> None:
        usage = answer.usage
        span.set_attributes(
            {
                "gen_ai.response.id": answer.id,
                "gen_ai.response.model": answer.model,
                "gen_ai.response.finish_reasons": ("stop",),
                "gen_ai.usage.input_tokens": getattr(usage, "prompt_tokens", None) or usage.input_tokens,
                "gen_ai.usage.output_tokens": getattr(usage, "completion_tokens", None)
                or usage.output_tokens,
                "gen_ai.usage.total_tokens": usage.total_tokens,
                "gen_ai.response.time_to_first_chunk": first - began,
                **more,
            }
        )
        span.end()

    def watch(span: Span, stream: Any, began: float) -> Any:
        first, event = 0.0, None
        for event in stream:
            first = first or time.perf_counter()
            yield event
        finish(span, getattr(event, "response", event), began, first)

    async def awatch(span: Span, stream: Any, began: float) -> Any:
        first, event = 0.0, None
        async for event in stream:
            first = first or time.perf_counter()
            yield event
        finish(span, getattr(event, "response", event), began, first)

    def patch(owner: type, operation: str) -> None:
        original = owner.create

        @functools.wraps(original)
        def create(self: Any, **kwargs: Any) -> Any:
            span, began = start(operation, kwargs), time.perf_counter()
            with use_span(span):
                answer = original(self, **kwargs)
            if kwargs.get("stream"):
                return watch(span, answer, began)
            finish(span, answer, began, time.perf_counter())
            return answer

        owner.create = create

    def apatch(owner: type, operation: str) -> None:
        original = owner.create

        @functools.wraps(original)
        async def create(self: Any, **kwargs: Any) -> Any:
            span, began = start(operation, kwargs), time.perf_counter()
            with use_span(span):
                answer = await original(self, **kwargs)
            if kwargs.get("stream"):
                return awatch(span, answer, began)
            finish(span, answer, began, time.perf_counter())
            return answer

        owner.create = create

    patch(Completions, "chat")
    patch(Responses, "chat")
    apatch(AsyncCompletions, "chat")
    apatch(AsyncResponses, "chat")
