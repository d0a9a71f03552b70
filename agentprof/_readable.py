"""Spans of the OpenTelemetry SDK as raw spans, the form every other source is read into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentprof.model import RawSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_KIND_OFFSET = 1
"""OTLP counts span kinds from `unspecified`, the SDK from `internal`."""


def plain_attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """The attributes as a dict: each access to the SDK's own mapping takes longer than a copy of all."""
    try:
        held = span._attributes._dict  # type: ignore[union-attr]
    except AttributeError:
        held = None
    return held if type(held) is dict else dict(span.attributes or {})


def to_raw(
    span: ReadableSpan, open_end_ns: int | None = None, said: Mapping[str, Any] | None = None
) -> RawSpan:
    """One span as `agentprof.vocabularies.normalise` reads it.

    Args:
        open_end_ns: End of a span that has not ended yet, ns since the epoch.
        said: Attributes that hold whatever the span itself says.
    """
    context = span.context
    assert context is not None
    scope = span.instrumentation_scope
    end_ns = span.end_time
    return RawSpan(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent is not None else None,
        name=span.name,
        kind=span.kind.value + _KIND_OFFSET,
        start_ns=span.start_time or 0,
        end_ns=end_ns if end_ns is not None else open_end_ns,
        status=span.status.status_code.value,
        attributes={**(span.attributes or {}), **(said or {})},
        scope=scope.name if scope is not None else "",
        resource=dict(span.resource.attributes),
    )
