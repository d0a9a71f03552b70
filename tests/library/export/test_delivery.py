"""From ended spans to a collector that is absent, slow, failing, restarted or picky: each arrives once."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from support.collector_server import PATIENCE_S, CollectorServer, Reply, free_port

from agentprof import _courier, _destinations, _guard, _spool
from agentprof._counts import counts
from agentprof._destinations import encoded

Make = Callable[..., Any]


def files(folder: Path) -> list[str]:
    """Names in the spool."""
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def test_spans_arrive(exporting: Make, folder: Path) -> None:
    """With a collector there, nothing touches the disk."""
    with CollectorServer() as collector:
        export = exporting(collector.url, folder)
        names = export.spans(range(1000))
        assert export.worker.flush(30)
        assert collector.names == names
    assert (counts.sent, counts.spooled, counts.dropped, counts.refused) == (1000, 0, 0, 0)
    assert not folder.exists()


def test_absent_during_ten_thousand_then_started(exporting: Make, folder: Path) -> None:
    """All of them arrive, once each, and the spool is empty again."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", folder)
        names = export.spans(range(10_000))
        assert export.worker.flush(30)
        assert (counts.spooled, counts.sent, counts.dropped) == (10_000, 0, 0)
        assert set(_guard.counts()) == {"no collector"}
    with CollectorServer(port) as collector:
        collector.wait_for(lambda: len(collector.names) >= 10_000)
        export.worker.close(30)
        assert sorted(collector.names) == sorted(names)
        assert files(folder) == []
    assert counts.delivered == 10_000


def test_restarted_midway(exporting: Make, folder: Path) -> None:
    """What ends while it is away comes after it is back; nothing comes twice."""
    with CollectorServer() as collector:
        export = exporting(collector.url, folder)
        names = export.spans(range(2000))
        assert export.worker.flush(30)
        collector.stop()
        names += export.spans(range(2000, 4000))
        assert export.worker.flush(30)
        collector.start()
        names += export.spans(range(4000, 6000))
        assert export.worker.flush(30)
        collector.wait_for(lambda: len(collector.names) >= 6000)
        assert sorted(collector.names) == sorted(names)


def test_the_oldest_come_first(exporting: Make, folder: Path) -> None:
    """Files are delivered in the order they were written."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", folder)
        names = []
        for number in range(20):
            names += export.spans([number])
            assert export.worker.flush(30)
    with CollectorServer(port) as collector:
        collector.wait_for(lambda: len(collector.names) == 20)
        assert collector.names == names


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_asked_to_come_later(exporting: Make, folder: Path, status: int) -> None:
    """The batch is kept, and `Retry-After` is waited for."""
    times: list[float] = []

    def reply(number: int) -> Reply:
        times.append(time.monotonic())
        return Reply(status, {"retry-after": "1"}) if number == 0 else Reply()

    with CollectorServer(reply=reply) as collector:
        export = exporting(collector.url, folder)
        names = export.spans(range(3))
        assert export.worker.flush(30)
        assert counts.spooled == 3
        collector.wait_for(lambda: collector.names == names)
        assert times[1] - times[0] >= 1
        export.worker.close(30)
        assert len(collector.requests) == 2
    assert (counts.delivered, counts.refused) == (3, 0)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413, 500])
def test_refused(exporting: Make, folder: Path, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """Not tried again, counted, and said once."""
    with CollectorServer(reply=lambda number: Reply(status)) as collector:
        export = exporting(collector.url, folder)
        for number in range(3):
            export.spans([number])
            assert export.worker.flush(30)
        export.worker.close(30)
        assert len(collector.requests) == 3
    assert (counts.refused, counts.spooled, counts.sent) == (3, 0, 0)
    assert files(folder) == []
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert f"HTTP {status}" in said[0]


def test_refused_from_the_spool(exporting: Make, folder: Path) -> None:
    """A file the collector does not want is not kept for ever."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", folder)
        export.spans(range(5))
        assert export.worker.flush(30)
    with CollectorServer(port, reply=lambda number: Reply(400)) as collector:
        collector.wait_for(lambda: len(collector.requests) == 1)
        export.worker.close(30)
    assert (counts.spooled, counts.discarded) == (5, 5)
    assert files(folder) == []


def test_taken_in_part(exporting: Make, folder: Path) -> None:
    """What the collector says it has not kept is counted and not sent again."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2
    with CollectorServer(reply=lambda number: Reply(body=answer.SerializeToString())) as collector:
        export = exporting(collector.url, folder)
        export.spans(range(5))
        assert export.worker.flush(30)
        assert len(collector.requests) == 1
    assert (counts.sent, counts.refused) == (3, 2)


def test_a_connection_that_is_cut(exporting: Make, folder: Path) -> None:
    """Without an answer nobody knows: the batch is sent again."""
    with CollectorServer(reply=lambda number: Reply(hang_up=number == 0)) as collector:
        export = exporting(collector.url, folder)
        names = export.spans(range(3))
        collector.wait_for(lambda: collector.names == names)
        export.worker.close(30)
    assert files(folder) == []


def test_a_slow_collector_holds_nobody_up(exporting: Make, folder: Path) -> None:
    """While it thinks, the rest goes to disk; at the end everything does, within the time given."""
    hold = threading.Event()
    with CollectorServer(reply=lambda number: Reply(hold=hold)) as collector:
        export = exporting(collector.url, folder)
        names = export.spans(["first"])
        collector.wait_for(lambda: len(collector.requests) == 1)
        names += export.spans(range(3000))
        began = time.monotonic()
        export.worker.close(0.5)
        assert time.monotonic() - began < PATIENCE_S / 3
        assert counts.spooled == 3001
        hold.set()
    with CollectorServer(int(collector.url.split(":")[2].split("/")[0])) as again:
        later = exporting(again.url, folder)
        later.spans(["later"])
        assert later.worker.flush(20)
        again.wait_for(lambda: len(again.names) == 3002)
        assert sorted(again.names) == sorted([*names, "later"])


def test_the_next_tries_are_apart(exporting: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure batches go to disk without a try, until the pause is over."""
    monkeypatch.setattr(_courier, "FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(_courier, "LONGEST_PAUSE_S", 3600.0)
    with CollectorServer(reply=lambda number: Reply(503)) as collector:
        export = exporting(collector.url, folder)
        for number in range(50):
            export.spans([number])
            assert export.worker.flush(30)
        assert len(collector.requests) == 1
    assert len(files(folder)) == 50
    assert counts.spooled == 50


def test_the_pause_grows_to_its_bound(exporting: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 2, 4, 8, 16, 30, 30 seconds: asked of the courier itself."""
    monkeypatch.setattr(_courier, "FIRST_PAUSE_S", 1.0)
    monkeypatch.setattr(_courier, "LONGEST_PAUSE_S", 30.0)
    courier = _courier.Courier(exporting("http://127.0.0.1:9/", folder).endpoint, None, quiet=True)
    pauses = []
    for _ in range(7):
        courier._failed(_courier.Answer("later"))
        pauses.append(courier._pause_s)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    courier._answered(_courier.Answer("taken"))
    courier._failed(_courier.Answer("later"))
    assert courier._pause_s == 1


def test_without_a_spool_spans_wait_in_memory(exporting: Make) -> None:
    """And arrive once the collector is there."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", None)
        names = export.spans(range(1500))
        assert not export.worker.flush(0.3)
    with CollectorServer(port) as collector:
        assert export.worker.flush(20)
        assert collector.names == names
    assert (counts.sent, counts.dropped) == (1500, 0)


def test_without_spool_and_collector_the_last_are_lost(exporting: Make) -> None:
    """Counted and said; the end does not wait for what will not come."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", None)
        export.spans(range(7))
        assert not export.worker.flush(0.2)
        export.worker.close(0.2)
    assert (counts.sent, counts.dropped, export.worker.waiting) == (0, 7, 0)
    assert _guard.counts()["lost at exit"] >= 1


def test_a_spool_that_takes_nothing(exporting: Make, tmp_path: Path) -> None:
    """Its folder cannot be made: spans wait in memory, it is counted, and nothing raises."""
    (tmp_path / "file").write_text("no folder")
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", tmp_path / "file" / "spool")
        names = export.spans(range(600))
        assert not export.worker.flush(0.3)
    assert _guard.counts()["spool"] >= 1
    with CollectorServer(port) as collector:
        assert export.worker.flush(20)
        assert collector.names == names
    assert (counts.sent, counts.dropped) == (600, 0)


def test_a_full_disk(run: Make, folder: Path) -> None:
    """Nothing raises, nothing half-written is left, and spans wait in memory for the collector."""
    found = run(
        """
        import logging, resource
        logging.disable()
        from support.collector_server import CollectorServer, free_port
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with free_port() as port:
            agentprof.instrument(endpoint=f"http://127.0.0.1:{port}/v1/traces", exit_timeout_s=0.3)
            for number in range(20):
                with agentprof.step(str(number)):
                    pass
            while not agentprof.stats().failures.get("spool"):
                agentprof.flush(0.1)
            before = agentprof.flush(0.1), agentprof.stats().waiting, os.listdir(sys.argv[1])
        with CollectorServer(port) as collector:
            after = agentprof.flush(20), len(collector.names), agentprof.stats().sent
        print(json.dumps([before, after, agentprof.stats().failures["spool"] > 0]))
        """,
        folder,
    )
    assert found == [[False, 20, []], [True, 20, 20], True]


def test_a_damaged_file_is_discarded(exporting: Make, folder: Path) -> None:
    """A file that is shorter than its name says was cut by a crash; the others are delivered."""
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", folder)
        for number in range(3):
            export.spans([number])
            assert export.worker.flush(30)
        export.worker.close(0)
    first = folder / files(folder)[0]
    first.write_bytes(first.read_bytes()[:-1])
    with CollectorServer(port) as collector:
        later = exporting(collector.url, folder)
        later.spans(["later"])
        assert later.worker.flush(30)
        assert sorted(collector.names) == ["1", "2", "later"]
    assert counts.discarded == 1
    assert files(folder) == []


def test_large_batches_are_divided(exporting: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers bound the size of a request."""
    export = exporting("http://127.0.0.1:9/", None)
    kept: list[ReadableSpan] = []
    monkeypatch.setattr(export.worker, "take", kept.append)
    export.spans("x" * 1000 for _ in range(100))
    assert [request.spans for request in encoded(kept)] == [100]
    monkeypatch.setattr(_destinations, "LARGEST_REQUEST", 30_000)
    requests = encoded(kept)
    assert [request.spans for request in requests] == [25] * 4
    assert all(len(request.data) <= 30_000 for request in requests)


def test_a_span_that_cannot_be_encoded_costs_only_itself(exporting: Make) -> None:
    """Whoever made it."""
    export = exporting("http://127.0.0.1:9/", None)
    good = ReadableSpan("good", context=_context(1))
    bad = ReadableSpan("bad", context=_context(2), start_time=-1)
    requests = encoded([good, bad, good])
    assert sum(request.spans for request in requests) == 2
    assert counts.dropped == 1
    assert export.worker.waiting == 0


def _context(number: int) -> Any:
    from opentelemetry.trace import SpanContext

    return SpanContext(number, number, is_remote=False)


def test_stats_add_up(exporting: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every span is somewhere."""
    monkeypatch.setattr(_spool, "MAX_FILES", 2)
    with free_port() as port:
        export = exporting(f"http://127.0.0.1:{port}/v1/traces", folder)
        for number in range(5):
            export.spans([number, number])
            assert export.worker.flush(30)
    assert (counts.spooled, counts.discarded) == (10, 6)
    assert len(files(folder)) == 2
