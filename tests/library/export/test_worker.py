"""The worker: it never holds the program up, drops nothing unless its queue is full, and counts what it drops."""

import sys
import threading
from collections.abc import Sequence
from decimal import Decimal

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentprof
from agentprof import _export, _guard, _worker, attributes
from agentprof._counts import counts
from agentprof._destinations import ToExporter
from agentprof._processors import ExportProcessor
from agentprof._worker import ExportWorker
from agentprof.config import Config, ModelPrice
from agentprof.model import Span
from agentprof.pricing import Pricer


class Gate(SpanExporter):
    """Takes spans once it is opened."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.names: list[str] = []
        self.result = result
        self.shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.open.wait(30)
        self.names += [span.name for span in spans]
        return self.result

    def shutdown(self) -> None:
        self.shut_down = True


def make(exporter: SpanExporter) -> tuple[ExportWorker, TracerProvider]:
    processor = ExportProcessor()
    processor.worker = ExportWorker(ToExporter(exporter))
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return processor.worker, provider


def spans(provider: TracerProvider, names: Sequence[str]) -> None:
    for name in names:
        provider.get_tracer("t").start_span(name).end()


def test_nothing_is_lost_behind_a_slow_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 quick spans all arrive, in order, though the exporter was stuck at first."""
    monkeypatch.setattr(_worker, "QUEUE", 30_000)
    gate = Gate()
    worker, provider = make(gate)
    names = [str(number) for number in range(20_000)]
    spans(provider, names)
    assert not worker.flush(0.05)
    gate.open.set()
    assert worker.flush(30)
    assert gate.names == names
    assert (counts.sent, counts.dropped, counts.refused, worker.waiting) == (20_000, 0, 0, 0)
    worker.close(1)


def test_a_full_queue_drops_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound the newest spans are dropped and counted; the program is never held up."""
    monkeypatch.setattr(_worker, "QUEUE", 10)
    gate = Gate()
    worker, provider = make(gate)
    spans(provider, ["first"])
    worker.flush(0)
    assert gate.entered.wait(30)
    spans(provider, [str(number) for number in range(25)])
    assert counts.dropped == 15
    assert worker.waiting == 11
    assert _guard.counts() == {"full queue": 15}
    gate.open.set()
    assert worker.flush(30)
    assert gate.names == ["first", *map(str, range(10))]
    worker.close(1)


def test_refused_and_failing_exports_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal and an exception cost the batch and nothing else."""
    gate = Gate(SpanExportResult.FAILURE)
    gate.open.set()
    worker, provider = make(gate)
    spans(provider, ["a"])
    assert worker.flush(30)
    assert counts.refused == 1

    def broken(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError

    monkeypatch.setattr(gate, "export", broken)
    spans(provider, ["b", "c"])
    assert worker.flush(30)
    assert counts.refused == 3
    assert _guard.counts() == {"refused spans": 1, "sending spans": 1}
    worker.close(1)
    spans(provider, ["late"])
    assert (counts.dropped, worker.waiting) == (0, 0)


def test_an_exporter_that_hangs_does_not_hold_up_the_end() -> None:
    """What waits behind it when the time is over is lost, and counted."""
    gate = Gate()
    worker, provider = make(gate)
    spans(provider, ["a"])
    worker.flush(0)
    assert gate.entered.wait(30)
    spans(provider, ["b", "c"])
    worker.close(0.05)
    assert counts.dropped == 2
    gate.open.set()


def test_a_span_wakes_a_worker_that_sleeps() -> None:
    """Also after it had nothing to do: nobody has to flush."""
    gate = Gate()
    gate.open.set()
    worker, provider = make(gate)
    for name in ("a", "b", "c"):
        gate.entered.clear()
        spans(provider, [name])
        assert gate.entered.wait(30)
        assert worker.flush(30)
    assert gate.names == ["a", "b", "c"]
    worker.close(1)


def test_a_span_that_ends_while_the_worker_is_asked() -> None:
    """Garbage collection may end a stream anywhere, also where the thread holds the lock of the worker."""
    gate = Gate()
    gate.open.set()
    worker, provider = make(gate)
    spans(provider, ["a"])
    assert worker.flush(30)
    with worker._wake:
        worker._asleep = True
        spans(provider, [str(number) for number in range(_worker.BATCH)])
    assert worker.flush(30)
    assert len(gate.names) == 1 + _worker.BATCH
    worker.close(1)


def test_without_a_thread_spans_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is ending can start no thread any more."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    gate = Gate()
    gate.open.set()
    worker, provider = make(gate)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        spans(provider, ["a", "b"])
        assert _guard.counts() == {"queueing a span": 2}
        worker.close(30)
    assert gate.names == ["a", "b"]


def test_many_threads_flush_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each span is sent once, and none of them gets an error."""
    gate = Gate()
    gate.open.set()
    worker, provider = make(gate)
    monkeypatch.setattr(_worker, "BATCH", 4_000)
    monkeypatch.setattr(worker, "_start", lambda: None)
    at_once = threading.Barrier(8)
    errors: list[BaseException] = []
    names = [str(number) for number in range(4_000)]

    def flush() -> None:
        at_once.wait()
        try:
            worker.flush(30)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    spans(provider, names)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        flushing = [threading.Thread(target=flush) for _ in range(8)]
        for thread in flushing:
            thread.start()
        for thread in flushing:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert sorted(gate.names) == sorted(names)
    worker.close(1)


def test_a_span_whose_price_cannot_be_found() -> None:
    """It goes out without one; the others of its batch have theirs."""

    class Odd(Pricer):
        def price(self, span: Span) -> Span:
            if span.call is not None and span.call.model == "odd":
                raise ZeroDivisionError
            return super().price(span)

    prices = Odd(
        Config(prices=[ModelPrice(provider="*", model="plain", input=Decimal(1), output=Decimal(1))])
    )
    exporter = InMemorySpanExporter()
    worker = ExportWorker(ToExporter(exporter), lambda in_haste: prices)
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ExportProcessor()
    processor.worker = worker
    provider.add_span_processor(processor)
    usage = {attributes.OPERATION: "chat", attributes.INPUT_TOKENS: 10**6, attributes.OUTPUT_TOKENS: 0}
    for model in ("plain", "odd", "plain"):
        said = usage | {attributes.REQUEST_MODEL: model}
        provider.get_tracer("t").start_span(model, attributes=said).end()
    assert worker.flush(10)
    costs = [
        (span.name, (span.attributes or {}).get(attributes.COST)) for span in exporter.get_finished_spans()
    ]
    assert costs == [("plain", "1.000000"), ("odd", None), ("plain", "1.000000")]
    assert _guard.counts() == {"pricing a span": 1}
    worker.close(1)


def test_the_provider_shuts_the_exporter_down() -> None:
    """Once, with what waited delivered before."""
    gate = Gate()
    gate.open.set()
    _, provider = make(gate)
    spans(provider, ["a"])
    provider.shutdown()
    assert gate.names == ["a"]
    assert gate.shut_down


def test_flush_without_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """`None` means as long as is usual, and is no error."""
    assert agentprof.flush(None) is True
    monkeypatch.setattr(_export, "FLUSH_S", 0.01)
    gate = Gate()
    agentprof.instrument(exporter=gate, tracer_provider=TracerProvider(shutdown_on_exit=False))
    try:
        with agentprof.step("s"):
            pass
        assert agentprof.flush(None) is agentprof.flush() is False
        gate.open.set()
        assert agentprof.flush(30) is True
    finally:
        agentprof.uninstrument()
    assert gate.names == ["s"]
