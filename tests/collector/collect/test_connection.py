"""HTTP connections: framing that no client sends, half requests, silence, and too many of them."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest
from support.collecting import PROTOBUF, SPAN, TRACES, Collected, all_that_comes, collecting, refusal

from agentprof_collector.collect import connection as connections
from agentprof_collector.collect import servers
from agentprof_collector.receive import asgi

HEAD = b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n"


@pytest.fixture(scope="module")
def running() -> Iterator[Collected]:
    """One for all tests here: it takes a moment to end."""
    with collecting() as running:
        yield running


@pytest.fixture
def collected(running: Collected) -> Collected:
    """A collector that has taken nothing since the test began."""
    running.received.clear()
    return running


def test_one_connection_takes_many_requests(collected: Collected) -> None:
    """Kept alive between them, also for a chunked body."""
    connection = http.client.HTTPConnection("127.0.0.1", collected.otlp.port, timeout=20)
    headers = {"content-type": PROTOBUF}
    for _ in range(3):
        connection.request("POST", TRACES, SPAN, headers)
        assert connection.getresponse().read() == b""
    used = connection.sock
    halves = iter((SPAN[:10], SPAN[10:]))
    connection.request("POST", TRACES, halves, headers, encode_chunked=True)
    assert connection.getresponse().status == 200
    assert connection.sock is used
    assert len(collected.received) == 4
    connection.close()


def test_requests_sent_without_waiting_are_answered_in_order(collected: Collected) -> None:
    """One after the other on one connection."""
    one = HEAD + b"content-length: %d\r\n\r\n" % len(SPAN) + SPAN
    with collected.connection() as connection:
        connection.sendall(one * 3 + HEAD + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        got = all_that_comes(connection)
    assert got.count(b"HTTP/1.1 200 OK") == 4
    assert len(collected.received) == 3


MALFORMED = [
    HEAD + b"content-length: -5\r\n\r\n",
    HEAD + b"content-length: 5 5\r\n\r\n",
    HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
    HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nabcdefghij\r\n",
    HEAD + b"transfer-encoding: gzip\r\n\r\n",
    HEAD + b"host: other\r\ncontent-length: 0\r\n\r\n",
    b"POST /v1/traces HTTP/1.1\r\n\r\n",
    b"POST /v1/traces\r\n\r\n",
    b"POST /v1/traces HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
    HEAD + b"h: x\r\n" * 100_000 + b"\r\n",
    HEAD + b"h: " + b"x" * 100_000,
    HEAD + b"h\0: x\r\n\r\n",
    b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /v1/tr\xffces HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("sent", MALFORMED)
def test_malformed_framing_is_answered_and_the_connection_ends(collected: Collected, sent: bytes) -> None:
    """With an error, and no second request is read from it, whatever follows."""
    with collected.connection() as connection:
        connection.sendall(sent + HEAD + b"content-length: %d\r\n\r\n" % len(SPAN) + SPAN)
        got = all_that_comes(connection)
    assert got.startswith(b"HTTP/1.1 4")
    assert got.count(b"HTTP/1.1 ") == 1
    assert collected.received == []
    assert collected.send(SPAN).status == 200


def test_a_body_without_a_length_is_empty(collected: Collected) -> None:
    """What follows is the next request."""
    with collected.connection() as connection:
        connection.sendall(HEAD + b"connection: close\r\n\r\n")
        assert all_that_comes(connection).startswith(b"HTTP/1.1 200")


def test_who_closes_its_half_after_the_request_is_answered(collected: Collected) -> None:
    """And then the connection ends."""
    with collected.connection() as connection:
        connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(SPAN) + SPAN)
        connection.shutdown(socket.SHUT_WR)
        assert all_that_comes(connection).startswith(b"HTTP/1.1 200")
    assert len(collected.received) == 1


def test_half_a_request_is_not_taken(collected: Collected) -> None:
    """A sender that leaves in the middle has sent nothing, and nothing of it stays in memory."""
    for sent in (HEAD, HEAD + b"content-length: 900000\r\n\r\n" + SPAN * 1000):
        with collected.connection() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            all_that_comes(connection)
    assert collected.send(SPAN).status == 200
    assert (len(collected.received), collected.collector._budget.taken_bytes) == (1, 0)


def test_slow_senders_hold_nobody_up(collected: Collected) -> None:
    """However many have sent their headers, or a part of them, and no more."""
    slow = [socket.create_connection(("127.0.0.1", collected.otlp.port)) for _ in range(60)]
    try:
        for at, connection in enumerate(slow):
            connection.sendall(HEAD + b"content-length: 9\r\n\r\n" if at % 2 else HEAD)
        assert collected.send(SPAN).status == 200
    finally:
        for connection in slow:
            connection.close()


def test_who_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a request without an answer, in the middle of one with 408."""
    monkeypatch.setattr(asgi, "IDLE_S", 0.2)
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with collecting() as collected:
        for sent in (b"", HEAD):
            with collected.connection() as connection:
                connection.sendall(sent)
                assert all_that_comes(connection) == b""
        with collected.connection() as connection:
            connection.sendall(HEAD + b"content-length: 900\r\n\r\nabc")
            got = all_that_comes(connection)
        assert got.startswith(b"HTTP/1.1 408")
        monkeypatch.setattr(connections, "SILENCE_S", 0.2)
        with socket.create_connection(("127.0.0.1", collected.pages.port), timeout=20) as connection:
            connection.sendall(HEAD.replace(TRACES.encode(), b"/api/v1/tasks/a/outcome"))
            connection.sendall(b"content-length: 900\r\n\r\n{")
            assert b"HTTP/1.1 200" not in all_that_comes(connection)
        assert collected.send(SPAN).status == 200


def test_connections_beyond_the_limit_are_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After, and no answer at all far beyond; there is room again when others leave."""
    monkeypatch.setattr(servers, "_CONNECTIONS", 10)
    with collecting() as collected:
        held = [socket.create_connection(("127.0.0.1", collected.otlp.port), timeout=20) for _ in range(10)]
        for connection in held:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        answered = collected.send(SPAN)
        assert (answered.status, answered.headers["retry-after"]) == (503, "1")
        assert refusal(answered)[0] == 14
        more = [socket.create_connection(("127.0.0.1", collected.otlp.port), timeout=20) for _ in range(30)]
        assert sum(_is_cut(connection) for connection in more) >= 20
        for connection in held + more:
            connection.close()
        assert _asked_until(collected, 200)
        assert len(collected.received) == 1


def _is_cut(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def _asked_until(collected: Collected, status: int) -> bool:
    """The server notices in its own time that others have left."""
    return any(collected.send(SPAN).status == status for _ in range(1000))


def test_a_sender_that_is_cut_off_by_the_end_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is still sending when the collector ends is not told that the request was wrong."""
    monkeypatch.setattr(servers, "_GRACE_S", 0.1)
    with collecting() as collected, collected.connection() as connection:
        connection.sendall(HEAD + b"content-length: 900\r\n\r\nabc")
        assert collected.send(SPAN).status == 200  # by now the other one is read
        collected.collector.stop()
        got = all_that_comes(connection)
    assert got.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in got


def test_what_is_no_http_is_counted_and_not_logged(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a request to speak something else; a sender could fill the log with it."""
    before = malformed(collected)
    for sent in (b"no http\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
        with collected.connection() as connection:
            connection.sendall(sent)
            assert b"400" in all_that_comes(connection)
    with collected.connection() as connection:
        upgrade = b"connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n"
        connection.sendall(HEAD + upgrade)
        assert connection.recv(1000)
    assert malformed(collected) == before + 2
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def malformed(collected: Collected) -> float:
    """As the metrics say."""
    lines = collected.pages.ask("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("agentprof_http_malformed "))
