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
