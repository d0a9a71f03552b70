"""Where the export worker takes its spans: an exporter of the SDK, or a collector with a spool behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentprof import _guard
from agentprof._counts import counts
from agentprof._courier import Courier, Request

LARGEST_REQUEST = 4 * 1024 * 1024
"""Bytes; receivers bound what they take. Batches beyond are divided, single spans are not."""


class Destination(Protocol):
    """Takes batches from one worker thread; counts what becomes of their spans."""

    @property
    def waiting(self) -> int:
        """Spans that were delivered to it and are not counted yet."""

    def start(self) -> None:
        """The worker starts; the program still runs."""

    def prepare(self) -> None:
        """Import what delivering needs."""

    def deliver(self, spans: Sequence[ReadableSpan]) -> None:
        """Take a batch. May take long, may raise."""

    def settle(self, timeout_s: float) -> bool:
        """Wait until no span is in memory any more; False if the time was not enough."""

    def close(self, timeout_s: float) -> None:
        """Settle and stop; what is not delivered by then is kept or counted as lost."""

    def shutdown(self) -> None:
        """The process ends."""

    def begin(self) -> None:
        """Set up as new, in a forked child."""


class ToExporter:
    """An exporter of the OpenTelemetry SDK, given by the program or made for gRPC."""

    waiting = 0

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def start(self) -> None:
        pass

    def prepare(self) -> None:
        pass

    def deliver(self, spans: Sequence[ReadableSpan]) -> None:
        try:
            taken = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:
            counts.add(refused=len(spans))
            _guard.failed("sending spans")
            return
        if taken:
            counts.add(sent=len(spans))
        else:
            counts.add(refused=len(spans))
            _guard.noted("refused spans", "agentprof: spans could not be sent; is the collector running?")

    def settle(self, timeout_s: float) -> bool:
        return True

    def close(self, timeout_s: float) -> None:
        pass

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def begin(self) -> None:
        pass


class ToCollector:
    """A collector that speaks OTLP over HTTP; encoding is the SDK's, delivery our own."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier

    @property
    def waiting(self) -> int:
        return self._courier.waiting

    def start(self) -> None:
        self._courier.start()

    def prepare(self) -> None:
        import opentelemetry.exporter.otlp.proto.common.trace_encoder  # noqa: F401

    def deliver(self, spans: Sequence[ReadableSpan]) -> None:
        for request in encoded(spans):
            self._courier.offer(request)

    def settle(self, timeout_s: float) -> bool:
        return self._courier.settle(timeout_s)

    def close(self, timeout_s: float) -> None:
        self._courier.close(timeout_s)

    def shutdown(self) -> None:
        pass

    def begin(self) -> None:
        self._courier.begin()


def encoded(spans: Sequence[ReadableSpan]) -> list[Request]:
    """Spans as OTLP requests; a span that cannot be encoded is counted as lost."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    try:
        data = encode_spans(spans).SerializeToString()
    except Exception:
        if len(spans) == 1:
            counts.add(dropped=1)
            _guard.failed("encoding a span")
            return []
    else:
        if len(spans) == 1 or len(data) <= LARGEST_REQUEST:
            return [Request(data, len(spans))]
    half = len(spans) // 2
    return encoded(spans[:half]) + encoded(spans[half:])
