"""The sender: what goes over the wire by the `OTEL_EXPORTER_OTLP_*` variables, and what the answers mean."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext
from support.collector_server import CollectorServer, Reply

from agentprof import _guard, _otlp
from agentprof._destinations import encoded
from agentprof._otlp_http import Endpoint, Sender, _retry_after_s

Variables = Callable[..., _otlp.Endpoint]


@pytest.fixture
def request_bytes() -> bytes:
    """An encoded request of one span."""
    return encoded([ReadableSpan("a", context=SpanContext(1, 1, is_remote=False))])[0].data


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """The endpoint by these variables, without their common prefix."""

    def read(url: str | None = None, **values: str) -> _otlp.Endpoint:
        for name, value in values.items():
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
        return _otlp.endpoint(url, "http://default/v1/traces")

    return read


def test_the_default(variables: Variables) -> None:
    """Where nothing is said."""
    assert variables() == Endpoint("http://default/v1/traces")


def test_one_variable_for_all_signals(variables: Variables) -> None:
    """The path is added to its URL."""
    found = variables(
        ENDPOINT="http://all:4318/base/",
        HEADERS="authorization=Bearer%20k%3Dx, X-Team = a",
        TIMEOUT="2.5",
        COMPRESSION="gzip",
        CERTIFICATE="/ca.pem",
        CLIENT_CERTIFICATE="/client.pem",
        CLIENT_KEY="/client.key",
    )
    assert found == Endpoint(
        "http://all:4318/base/v1/traces",
        headers={"authorization": "Bearer k=x", "x-team": "a"},
        timeout_s=2.5,
        compression="gzip",
        certificate="/ca.pem",
        client_certificate="/client.pem",
        client_key="/client.key",
    )


def test_the_variable_for_traces_wins(variables: Variables) -> None:
    """Its URL is taken as it is; an argument of the program wins over both."""
    found = variables(
        ENDPOINT="http://all:4318",
        TRACES_ENDPOINT="http://traces/path",
        HEADERS="a=1",
        TRACES_HEADERS="b=2",
        TIMEOUT="1",
        TRACES_TIMEOUT="3",
    )
    assert found == Endpoint("http://traces/path", headers={"b": "2"}, timeout_s=3.0)
    assert variables("http://program/v1/traces") == Endpoint(
        "http://program/v1/traces", headers={"b": "2"}, timeout_s=3.0
    )


def test_nonsense_in_variables(variables: Variables) -> None:
    """Counted, and the default holds."""
    found = variables(TIMEOUT="soon", COMPRESSION="zip")
    assert found == Endpoint("http://default/v1/traces")
    assert _guard.counts() == {"export timeout": 1, "export compression": 1}


def test_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC where the variables ask for it."""
    assert not _otlp.wants_grpc()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert _otlp.wants_grpc()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    assert not _otlp.wants_grpc()


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
def test_over_the_wire(request_bytes: bytes, compression: str) -> None:
    """The bytes arrive as they are, with content type, headers and the encoding that was asked for."""
    with CollectorServer() as collector:
        sender = Sender(Endpoint(collector.url, headers={"x-team": "a"}, compression=compression))
        assert sender.send(request_bytes).kind == "taken"
        sender.close()
        (headers,) = collector.requests
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-team"] == "a"
    assert headers.get("content-encoding", "none") == compression
    assert collector.names == ["a"]


def test_one_connection_for_many_requests(request_bytes: bytes) -> None:
    """Kept open; one that the receiver has closed meanwhile is opened again without a failure."""
    with CollectorServer() as collector:
        sender = Sender(Endpoint(collector.url))
        for _ in range(5):
            assert sender.send(request_bytes).kind == "taken"
        assert len(collector._connections) == 1
        collector.stop()
        collector.start()
        assert sender.send(request_bytes).kind == "taken"
        sender.close()


@pytest.mark.parametrize(
    ("reply", "kind", "retry_after_s"),
    [
        (Reply(200), "taken", 0.0),
        (Reply(200, body=b"thank you"), "taken", 0.0),
        (Reply(204), "taken", 0.0),
        (Reply(429, {"retry-after": "7"}), "later", 7.0),
        (Reply(503), "later", 0.0),
        (Reply(503, {"retry-after": "soon"}), "later", 0.0),
        (Reply(502), "later", 0.0),
        (Reply(504), "later", 0.0),
        (Reply(400), "refused", 0.0),
        (Reply(408), "refused", 0.0),
        (Reply(500), "refused", 0.0),
        (Reply(301, {"location": "/elsewhere"}), "refused", 0.0),
        (Reply(hang_up=True), "later", 0.0),
    ],
)
def test_answers(request_bytes: bytes, reply: Reply, kind: str, retry_after_s: float) -> None:
    """What is worth another try is what the OTLP specification says."""
    with CollectorServer(reply=lambda number: reply) as collector:
        sender = Sender(Endpoint(collector.url))
        answer = sender.send(request_bytes)
        sender.close()
    assert (answer.kind, answer.retry_after_s) == (kind, retry_after_s)


def test_no_answer_in_time(request_bytes: bytes) -> None:
    """Worth another try, by a new connection."""
    hold = threading.Event()
    with CollectorServer(reply=lambda number: Reply(hold=hold if number == 0 else None)) as collector:
        sender = Sender(Endpoint(collector.url, timeout_s=0.05))
        assert sender.send(request_bytes)[0] == "later"
        hold.set()
        sender.endpoint = Endpoint(collector.url)
        assert sender.send(request_bytes)[0] == "taken"
        sender.close()


def test_an_abort_ends_a_request_under_way(request_bytes: bytes) -> None:
    """From another thread, at once."""
    hold = threading.Event()
    with CollectorServer(reply=lambda number: Reply(hold=hold)) as collector:
        sender = Sender(Endpoint(collector.url))
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(sender.send(request_bytes).kind))
        thread.start()
        collector.wait_for(lambda: len(collector.requests) == 1)
        sender.abort()
        thread.join(30)
        assert answers == ["later"]
        assert sender.send(request_bytes).kind == "later"
        sender.close()
        hold.set()


def test_a_header_that_cannot_be_sent_is_refused(request_bytes: bytes) -> None:
    """Another try would not help."""
    with CollectorServer() as collector:
        sender = Sender(Endpoint(collector.url, headers={"x": "a\nb"}))
        assert sender.send(request_bytes).kind == "refused"


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://host:99999999",
        "http://host:port",
        "http://",
        "host:4318",
        "ftp://host",
        "collector/v1",
        "",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(url: str, request_bytes: bytes) -> None:
    """It will never work; and an address may hold a password."""
    sender = Sender(Endpoint(url))
    for _ in range(2):
        answer = sender.send(request_bytes)
        assert (answer.kind, answer.reason) == ("refused", "expected an address like http://host:4318")
    sender.close()


def test_retry_after() -> None:
    """Seconds or a date; never longer than an hour, never back in time."""
    now = datetime.now(UTC)
    assert _retry_after_s("12") == 12.0
    assert 8 < _retry_after_s(format_datetime(now + timedelta(seconds=10), usegmt=True)) <= 10
    assert _retry_after_s(format_datetime(now - timedelta(seconds=10), usegmt=True)) == 0.0
    assert _retry_after_s("1e9") == 3600.0
    assert _retry_after_s("nan") == 0.0
    assert _retry_after_s(None) == 0.0


def test_a_proxy(request_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the environment names one, with its password; not for hosts it leaves out, nor for this machine."""
    seen: list[tuple[str, str | None]] = []

    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, self.headers["proxy-authorization"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("no_proxy", "left.invalid")
    try:
        sender = Sender(Endpoint("http://collector.invalid:4318/v1/traces?a=b", timeout_s=5))
        assert sender.send(request_bytes).kind == "taken"
        sender.close()
        assert (
            Sender(Endpoint("http://left.invalid/v1/traces", timeout_s=5)).send(request_bytes)[0] == "later"
        )
        with CollectorServer() as collector:
            direct = Sender(Endpoint(collector.url))
            assert direct.send(request_bytes).kind == "taken"
            direct.close()
    finally:
        server.shutdown()
        server.server_close()
    assert seen == [("http://collector.invalid:4318/v1/traces?a=b", "Basic dXNlcjpwQHNz")]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the tool that makes certificates is not there")
def test_tls(request_bytes: bytes, tmp_path: Path) -> None:
    """A certificate of one's own is trusted where the variable names it, and not else."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=localhost",
            ),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    collector = CollectorServer()
    collector.start()
    assert collector._server is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    collector._server.socket = context.wrap_socket(collector._server.socket, server_side=True)
    url = collector.url.replace("http://127.0.0.1", "https://localhost")
    try:
        trusting = Sender(Endpoint(url, certificate=str(certificate), timeout_s=30))
        assert trusting.send(request_bytes).kind == "taken"
        trusting.close()
        strict = Sender(Endpoint(url, timeout_s=5)).send(request_bytes)
        assert (strict.kind, strict.reason) == ("later", "SSLCertVerificationError")
    finally:
        collector.stop()
