"""Phase spans on their way to a trace store."""

from __future__ import annotations

import threading
import time

import pytest
from support.collector_server import CollectorServer, Reply, free_port
from support.spans import TASK, call, task

from agentprof.model import Span
from agentprof_collector.phase_export import QUEUE, PhaseExporter, traces_url

PATIENCE_S = 30.0


def spans(calls: int = 1, first_token_ns: int | None = 10) -> list[Span]:
    """A task with some calls, each with a wait and a generation."""
    made = [task("a" * 16, 0, 1000 * calls + 1)]
    for i in range(calls):
        start = 1000 * i + 1
        made.append(call(f"{i + 1:016x}", start, start + 500, "a" * 16, first_token_ns=first_token_ns))
    return made


def test_phases_arrive_compressed_at_the_path_of_otlp() -> None:
    """An address without a path is that of the receiver."""
    with (
        CollectorServer() as server,
        PhaseExporter(server.url.removesuffix("/v1/traces"), settle_s=0) as exporter,
    ):
        assert exporter.offer(TASK, spans())
        assert exporter.flush(PATIENCE_S)
        assert server.names == ["wait", "generation"]
        assert server.requests[0]["content-encoding"] == "gzip"
        assert (exporter.sent, exporter.waiting, exporter.dropped, exporter.refused) == (2, 0, 0, 0)


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://localhost", "http://", "", "grpc://localhost:4317"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """With a text that shows one."""
    with pytest.raises(ValueError, match="expected an address like http://localhost:4318"):
        PhaseExporter(url)


def test_a_path_of_the_users_own_is_kept() -> None:
    """Some stores receive elsewhere."""
    assert traces_url("http://h:1/insert/v1/traces") == "http://h:1/insert/v1/traces"
    assert traces_url("https://h/") == "https://h/v1/traces"


def test_what_was_sent_is_not_sent_again_until_it_changes() -> None:
    """Then the calls that changed are, and no others."""
    with CollectorServer() as server, PhaseExporter(server.url, settle_s=0) as exporter:
        exporter.offer(TASK, spans(3))
        assert exporter.flush(PATIENCE_S)
        exporter.offer(TASK, spans(3))
        exporter.offer("another task with the same calls", spans(3))
        assert exporter.flush(PATIENCE_S)
        assert len(server.spans) == 6
        changed = spans(3)
        changed[2] = spans(3, first_token_ns=20)[2]
        exporter.offer(TASK, changed)
        assert exporter.flush(PATIENCE_S)
        assert [s.parent_span_id.hex() for s in server.spans[6:]] == [changed[2].span_id] * 2
        # The same phases again: the same spans, so that the store can tell.
        assert server.spans[6].span_id == server.spans[2].span_id


def test_a_receiver_that_is_busy_is_asked_again() -> None:
    """Nothing is lost, and nothing counts twice."""
    with (
        CollectorServer(reply=lambda number: Reply(503 if number == 0 else 200)) as server,
        PhaseExporter(server.url, settle_s=0) as exporter,
    ):
        exporter.offer(TASK, spans())
        assert exporter.flush(PATIENCE_S)
        assert server.names == ["wait", "generation"]
        assert (exporter.sent, exporter.retries, len(server.requests)) == (2, 1, 2)


def test_what_is_refused_for_good_is_counted_and_not_repeated() -> None:
    """Also when the task is offered again."""
    with (
        CollectorServer(reply=lambda number: Reply(400)) as server,
        PhaseExporter(server.url, settle_s=0) as exporter,
    ):
        for _ in range(2):
            exporter.offer(TASK, spans())
            assert exporter.flush(PATIENCE_S)
        assert (exporter.sent, exporter.refused, len(server.requests)) == (0, 2, 1)


def test_many_phases_go_in_requests_of_a_bounded_size() -> None:
    """A large task is no message that a receiver refuses."""
    with CollectorServer() as server, PhaseExporter(server.url, settle_s=0) as exporter:
        exporter.offer(TASK, spans(2_500))
        assert exporter.flush(PATIENCE_S)
        assert len(server.requests) == 3
        assert len({s.span_id for s in server.spans}) == 5_000


def test_a_full_queue_drops_and_counts() -> None:
    """An offer never waits; a newer offer of a waiting task takes its place."""
    go_on = threading.Event()
    with (
        CollectorServer(reply=lambda number: Reply(hold=go_on)) as server,
        PhaseExporter(server.url, settle_s=0) as exporter,
    ):
        exporter.offer("in hand", spans())
        server.wait_for(lambda: len(server.requests) == 1)
        large = [spans()[1]] * QUEUE
        assert exporter.offer("large", large)
        assert exporter.offer("large", large)
        assert not exporter.offer("one more", spans())
        assert (exporter.dropped, exporter.waiting) == (1, 2)
        assert exporter.offer("large", spans(2))
        assert exporter.offer("one more", spans(3))
        go_on.set()
        assert exporter.flush(PATIENCE_S)
        assert exporter.sent == 6


def test_a_task_waits_for_evidence_that_comes_later() -> None:
    """It is drawn once, with what was offered last; the end of the exporter does not wait."""
    with CollectorServer() as server:
        with PhaseExporter(server.url, settle_s=PATIENCE_S) as exporter:
            exporter.offer(TASK, spans(1, first_token_ns=None))
            exporter.offer(TASK, spans(1, first_token_ns=10))
            assert (exporter.waiting, server.requests) == (1, [])
        assert server.names == ["wait", "generation"]
        with PhaseExporter(server.url, settle_s=0.05) as exporter:
            exporter.offer(TASK, spans())
            assert exporter.flush(PATIENCE_S)
            assert exporter.sent == 2


def test_little_room_ends_the_wait() -> None:
    """A queue that fills is emptied before its tasks are due."""
    with (
        CollectorServer() as server,
        PhaseExporter(server.url, settle_s=PATIENCE_S) as exporter,
    ):
        exporter.offer("due later", spans(2))
        exporter.offer("large", [spans()[1]] * (QUEUE // 2))
        server.wait_for(lambda: len(server.names) == 4)
        assert exporter.dropped == 0


def test_a_task_that_cannot_be_drawn_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is counted and said."""
    with CollectorServer() as server, PhaseExporter(server.url, settle_s=0) as exporter:
        exporter.offer("empty", [])
        exporter.offer(TASK, spans())
        assert exporter.flush(PATIENCE_S)
        assert (exporter.dropped, exporter.sent) == (1, 2)
    assert "phases of task empty are left out" in caplog.text


def test_closing_sends_what_is_left_and_ends_in_time() -> None:
    """Nobody is there: what could not be sent is counted, and nothing is taken any more."""
    with free_port() as port:
        exporter = PhaseExporter(f"http://127.0.0.1:{port}", settle_s=0)
        exporter.offer(TASK, spans())
        began = time.monotonic()
        exporter.close(timeout_s=1.0)
        assert time.monotonic() - began < PATIENCE_S
        assert (exporter.dropped, exporter.sent) == (1, 0)
        assert not exporter.offer(TASK, spans())
    with CollectorServer() as server:
        exporter = PhaseExporter(server.url, settle_s=0)
        exporter.offer(TASK, spans())
        exporter.close()
        assert server.names == ["wait", "generation"]


def test_closing_does_not_wait_for_a_receiver_that_hangs() -> None:
    """The request that is under way is cut."""
    never = threading.Event()
    try:
        with CollectorServer(reply=lambda number: Reply(hold=never)) as server:
            exporter = PhaseExporter(server.url, settle_s=0)
            exporter.offer(TASK, spans())
            server.wait_for(lambda: len(server.requests) == 1)
            exporter.close(timeout_s=0.2)
            assert (exporter.dropped, exporter.sent) == (1, 0)
            never.set()
    finally:
        never.set()
