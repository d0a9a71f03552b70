"""The export: it never blocks, drops nothing unless its queue is full, and counts what it drops."""

import os
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from agentprof import _guard, _processors
from agentprof._processors import ExportProcessor


class Gate(SpanExporter):
    """Takes spans once it is opened."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.names: list[str] = []
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.open.wait(30)
        self.names += [span.name for span in spans]
        return self.result


def make(exporter: SpanExporter) -> tuple[ExportProcessor, TracerProvider]:
    processor = ExportProcessor(exporter)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return processor, provider


def spans(provider: TracerProvider, names: Sequence[str]) -> None:
    for name in names:
        provider.get_tracer("t").start_span(name).end()


def test_nothing_is_lost_behind_a_slow_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 quick spans all arrive, in order, though the exporter was stuck at first."""
    monkeypatch.setattr(_processors, "QUEUE", 30_000)
    gate = Gate()
    processor, provider = make(gate)
    names = [str(number) for number in range(20_000)]
    spans(provider, names)
    assert not processor.force_flush(50)
    gate.open.set()
    assert processor.force_flush(30_000)
    assert gate.names == names
    assert (processor.dropped, processor.refused) == (0, 0)
    processor.shutdown()


def test_a_full_queue_drops_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound the newest spans are dropped and counted; the program is never held up."""
    monkeypatch.setattr(_processors, "QUEUE", 10)
    monkeypatch.setattr(_guard, "_counts", {})
    gate = Gate()
    processor, provider = make(gate)
    spans(provider, ["first"])
    processor.force_flush(0)
    assert gate.entered.wait(10)
    spans(provider, [str(number) for number in range(25)])
    assert processor.dropped == 15
    assert _guard.counts() == {"full queue": 15}
    gate.open.set()
    assert processor.force_flush(10_000)
    assert gate.names == ["first", *map(str, range(10))]
    processor.shutdown()


def test_refused_and_failing_exports_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal and an exception cost the batch and nothing else."""
    monkeypatch.setattr(_guard, "_counts", {})
    gate = Gate(SpanExportResult.FAILURE)
    gate.open.set()
    processor, provider = make(gate)
    spans(provider, ["a"])
    assert processor.force_flush(10_000)
    assert processor.refused == 1

    def broken(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError

    monkeypatch.setattr(gate, "export", broken)
    spans(provider, ["b", "c"])
    assert processor.force_flush(10_000)
    assert processor.refused == 3
    assert _guard.counts() == {"refused spans": 1, "sending spans": 1}
    processor.shutdown()
    spans(provider, ["late"])
    assert processor.dropped == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_sends_its_own() -> None:
    """The parent sends what was queued before the fork, the child only what is its own."""
    gate = Gate()
    processor, provider = make(gate)
    spans(provider, ["parent"])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        gate.open.set()
        spans(provider, ["child"])
        sent = processor.force_flush(10_000)
        os.write(writer, f"{sent} {' '.join(gate.names)}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"True child"
    os.close(reader)
    gate.open.set()
    assert processor.force_flush(10_000)
    assert gate.names == ["parent"]
    processor.shutdown()
