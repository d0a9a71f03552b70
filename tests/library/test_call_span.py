"""Attributes of a call set past the SDK's own look at each of them."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext

from agentprof._call_span import set_on

SAID: dict[str, Any] = {"a": "text", "b": 3, "c": 0.5, "d": True, "e": ("x", "y"), "f": (0.25, 1.0)}


@pytest.mark.parametrize(
    "limits",
    [
        SpanLimits(),
        SpanLimits(max_span_attributes=4),
        SpanLimits(max_span_attributes=7),
        SpanLimits(max_span_attribute_length=2),
        SpanLimits(max_attributes=0),
    ],
)
def test_the_same_as_by_the_sdk(limits: SpanLimits) -> None:
    """Whatever the limits of the provider, a span has what the SDK would have put on it, and counts what it lost."""
    tracer = TracerProvider(span_limits=limits, shutdown_on_exit=False).get_tracer("test")
    ours, plain = (tracer.start_span("s", attributes={"z": "longer", "a": 1}) for _ in range(2))
    set_on(ours, SAID)
    plain.set_attributes(SAID)
    for span in (ours, plain):
        span.end()
    found, expected = vars(ours)["_attributes"], vars(plain)["_attributes"]
    assert dict(found) == dict(expected)
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in expected.items()
    }
    assert found.dropped == expected.dropped


def test_an_ended_span_stays_as_it_is() -> None:
    """What the program has ended itself is not changed any more."""
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("s")
    span.end()
    set_on(span, SAID)
    assert not vars(span)["_attributes"]


def test_a_span_that_records_nothing() -> None:
    """Spans of another kind get their attributes the usual way."""
    set_on(NonRecordingSpan(SpanContext(1, 2, is_remote=False)), SAID)
