"""Sends one encoded OTLP request over HTTP and says what became of it.

The SDK's exporter encodes and sends in one go, and brings a whole HTTP library into the program; requests that
waited on disk have to go out as they are.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import math
import os
import socket
import ssl
import time
import urllib.request
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, unquote, urlsplit

from agentprof._otlp import Answer, Endpoint

RETRYABLE = frozenset((429, 502, 503, 504))
LONGEST_RETRY_AFTER_S = 3600.0
"""What a receiver asks for beyond this is not believed."""
_LONGEST_ANSWER = 64 * 1024


class _NoAddress(ValueError):
    """What spans are to be sent to is no address; the message says what one looks like."""


class Sender:
    """One connection to one endpoint, kept open between requests. For one thread; only `abort` is for others."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._connection: http.client.HTTPConnection | None = None
        self._target = ""
        self._headers: dict[str, str] = {}
        self._aborted = False

    def send(self, request: bytes) -> Answer:
        """Send an encoded request and wait for the answer, at most as long as the endpoint's timeout a step."""
        body, encoding = _compressed(request, self.endpoint.compression)
        headers = {
            "content-type": "application/x-protobuf",
            "user-agent": "agentprof",
            **self.endpoint.headers,
        }
        if encoding is not None:
            headers["content-encoding"] = encoding
        reused = self._connection is not None
        try:
            return self._exchange(body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            # A receiver may close a connection that was idle: that says nothing about the receiver.
            if not reused or isinstance(error, TimeoutError) or self._aborted:
                return self._failure(error)
        try:
            return self._exchange(body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return self._failure(error)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def abort(self) -> None:
        """From another thread: let a request that is under way fail at once, and send no more."""
        self._aborted = True
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self._aborted:
            return Answer("later", reason="aborted")
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", self._target, body, {**headers, **self._headers})
        response = self._connection.getresponse()
        said = response.read(_LONGEST_ANSWER)
        if not response.isclosed():  # longer than any true answer
            self.close()
        if 200 <= response.status < 300:
            return Answer("taken", rejected_spans=_rejected(said))
        reason = f"HTTP {response.status}"
        if response.status in RETRYABLE:
            return Answer("later", _retry_after_s(response.getheader("retry-after")), reason=reason)
        return Answer("refused", reason=reason)

    @staticmethod
    def _failure(error: Exception) -> Answer:
        # What cannot even be put into a request, such as a header with a line break, will never work.
        lasting = isinstance(error, (ValueError, http.client.InvalidURL)) and not isinstance(error, OSError)
        reason = str(error) if isinstance(error, _NoAddress) else type(error).__name__
        return Answer("refused" if lasting else "later", reason=reason)

    def _connect(self) -> http.client.HTTPConnection:
        """A connection that is not open yet, by way of a proxy where the environment names one."""
        url = _address(self.endpoint.url)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        proxy = _proxy_for(url) if self.endpoint.use_proxy else None
        self._target, self._headers = path, {}
        timeout_s = self.endpoint.timeout_s
        if url.scheme == "https":
            context = self._tls()
            if proxy is None:
                return http.client.HTTPSConnection(
                    url.hostname or "", url.port, timeout=timeout_s, context=context
                )
            tunnel = http.client.HTTPSConnection(
                proxy.hostname or "", proxy.port or 80, timeout=timeout_s, context=context
            )
            tunnel.set_tunnel(url.hostname or "", url.port or 443, _proxy_authorization(proxy))
            return tunnel
        if proxy is None:
            return http.client.HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
        self._target = f"http://{url.netloc.rpartition('@')[2]}{path}"
        self._headers = _proxy_authorization(proxy)
        return http.client.HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=timeout_s)

    def _tls(self) -> ssl.SSLContext:
        trusted = (
            self.endpoint.certificate
            or os.environ.get("REQUESTS_CA_BUNDLE")
            or os.environ.get("CURL_CA_BUNDLE")
        )
        context = (
            ssl.create_default_context(capath=trusted)
            if trusted and os.path.isdir(trusted)
            else ssl.create_default_context(cafile=trusted or None)
        )
        if self.endpoint.client_certificate:
            context.load_cert_chain(self.endpoint.client_certificate, self.endpoint.client_key)
        return context


def _address(written: str) -> SplitResult:
    """The parts of an address; nothing of it is repeated in the error, since it may hold a password."""
    try:
        url = urlsplit(written)
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise _NoAddress("expected an address like http://host:4318")


def _compressed(request: bytes, compression: str) -> tuple[bytes, str | None]:
    if compression == "gzip":
        return gzip.compress(request, compresslevel=1, mtime=0), "gzip"
    if compression == "deflate":
        return zlib.compress(request, 1), "deflate"
    return request, None


def _proxy_for(url: SplitResult) -> SplitResult | None:
    host = url.hostname or ""
    if host == "localhost" or host == "::1" or host.startswith("127."):
        return None
    named = urllib.request.getproxies_environment()
    proxy = named.get(url.scheme) or named.get("all")
    bypassed = urllib.request.proxy_bypass_environment(host, named)  # type: ignore[attr-defined]
    if not proxy or bypassed:
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _retry_after_s(value: str | None) -> float:
    """Seconds to wait by a `Retry-After` header: a number or an HTTP date; 0 where it says nothing usable."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value.strip()).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) else 0.0


def _rejected(said: bytes) -> int:
    """Spans a receiver that took the request has not kept, by its answer."""
    if not said:
        return 0
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        return max(ExportTraceServiceResponse.FromString(said).partial_success.rejected_spans, 0)
    except Exception:  # no such message: some receivers answer with a text
        return 0
