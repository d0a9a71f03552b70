"""Switching on and off while something of ours is at work in another thread."""

import threading
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentprof
from agentprof import _export, _instrument, _prices, _worker
from agentprof._destinations import ToExporter


def test_switching_off_while_the_worker_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it imports may be something that is patched at its import: that waits for nobody, and spans are sent."""
    begun, closing = threading.Event(), threading.Event()
    close = _worker.ExportWorker.close

    def prices(self: object, in_haste: bool) -> None:
        begun.set()
        assert closing.wait(30)
        _instrument._on_import(httpx)

    def closed(self: _worker.ExportWorker, timeout_s: float) -> None:
        closing.set()
        close(self, timeout_s)

    monkeypatch.setattr(_prices.Prices, "__call__", prices)
    monkeypatch.setattr(_worker.ExportWorker, "close", closed)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    agentprof.instrument(tracer_provider=provider, exporter=exporter, exit_timeout_s=30)
    with agentprof.step("s"):
        pass
    assert begun.wait(30)
    agentprof.uninstrument()
    assert [span.name for span in exporter.get_finished_spans()] == ["s"]


def test_switching_on_while_the_export_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is closing exports nothing new: there is another export then, as there is one after it."""
    close = _export.close
    provider = TracerProvider(shutdown_on_exit=False)
    first, second = exporters = [InMemorySpanExporter(), InMemorySpanExporter()]
    made = iter(exporters)

    def closed(exports: Any) -> None:
        monkeypatch.setattr(_export, "close", close)
        agentprof.instrument(tracer_provider=provider)
        close(exports)

    monkeypatch.setattr(_export, "_destination", lambda settings: ToExporter(next(made)))
    agentprof.instrument(tracer_provider=provider)
    monkeypatch.setattr(_export, "close", closed)
    with agentprof.step("before"):
        pass
    agentprof.uninstrument()
    with agentprof.step("after"):
        pass
    agentprof.uninstrument()
    assert [span.name for span in first.get_finished_spans()] == ["before"]
    assert [span.name for span in second.get_finished_spans()] == ["after"]
