"""For tests and examples: the spans of a block of code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Captured:
    """Ended spans, in the order of their ends."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def named(self, start: str) -> list[ReadableSpan]:
        """Those whose name starts with a text."""
        return [span for span in self.spans if span.name.startswith(start)]


@contextmanager
def capture(
    *,
    propagate_to: Iterable[str] | None = None,
    stream_usage: bool = False,
    estimate_usage: bool = False,
) -> Iterator[Captured]:
    """Instrument the process for a block and collect its spans, without touching the global provider.

    Args:
        propagate_to: As for `agentprof.instrument()`.
        stream_usage: As there.
        estimate_usage: As there.

    Raises:
        RuntimeError: The process is instrumented already.
    """
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    from agentprof import _instrument, _runtime

    if _runtime.active() is not None:
        raise RuntimeError(
            "agentprof is instrumented already: call agentprof.uninstrument() before capture()"
        )
    captured = Captured()

    class Collect(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            captured.spans.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Collect())
    _instrument.instrument(
        tracer_provider=provider,
        propagate_to=propagate_to,
        stream_usage=stream_usage,
        estimate_usage=estimate_usage,
    )
    try:
        yield captured
    finally:
        _instrument.uninstrument()
