"""What recorded spans say."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from agentprof.testing import Captured


def said(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes."""
    return dict(span.attributes or {})


def only(captured: Captured) -> tuple[ReadableSpan, dict[str, Any]]:
    """The only span, and its attributes."""
    (span,) = captured.spans
    return span, said(span)


def parent_of(span: ReadableSpan) -> int | None:
    """The id of the span above it."""
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    """Its own id."""
    assert span.context is not None
    return span.context.span_id
