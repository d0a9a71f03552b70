"""SDKs that trace themselves: their spans stay as they are, and none of ours goes out through them.

Such an SDK sends the trace context of its span to the provider. Where the program has no tracer provider it
makes no span, and takes for its own whichever stands in the context. Without us there is none, so nothing is
sent; with us it would be one of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from opentelemetry import trace

from agentprof import _calls, _context, _guard, _kept_back, _runtime
from agentprof._context import Attachment
from agentprof._patching import Patch, patches_of_function

_STARTS = "start_api_call_span"
"""Of anthropic 2."""


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in a base client that traces itself; nothing in others."""
    return patches_of_function(module, _STARTS, _own_span_only)


def _own_span_only(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start_api_call_span(*args: Any, **kwargs: Any) -> Any:
        span = original(*args, **kwargs)
        return None if span is not None and _is_ours(span) else span

    return start_api_call_span


def no_span_of_ours(original: Callable[..., Any]) -> Callable[..., Any]:
    """Around a hook of Mistral's that writes the present span into requests, wherever it comes from."""

    @functools.wraps(original)
    def before_request(self: Any, hook_ctx: Any, request: Any) -> Any:
        attached = _kept_from(request)
        try:
            return original(self, hook_ctx, request)
        finally:
            if attached is not None:
                attached.detach()

    return before_request


def _kept_from(request: Any) -> Attachment | None:
    runtime = _runtime.active()
    try:
        if runtime is None or runtime.settings.propagates_to(request.url.host):
            return None
        return _kept_back.without_span()
    except Exception:
        _guard.failed("a hook of an SDK")
        return None


def _is_ours(span: Any) -> bool:
    """Whether a span is only the present one again, as a tracer without a provider gives it, and that is ours."""
    try:
        if span.is_recording() or span.get_span_context() != trace.get_current_span().get_span_context():
            return False
        return _calls.current_call() is not None or _context.task_in() is not None
    except Exception:
        _guard.failed("a span of an SDK")
        return False
