"""Sends spans to the receiver of `agentprof run`, on this machine, whatever proxies the environment names."""

from __future__ import annotations

import http.client
import os
import threading
import weakref
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_TIMEOUT_S = 10.0
_PROTOBUF = {"content-type": "application/x-protobuf"}


class ToRun(SpanExporter):
    """OTLP over one connection of the standard library: the program gets no HTTP library it did not ask for."""

    def __init__(self, endpoint: str) -> None:
        self._url = urlsplit(endpoint)
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        exporter = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _forget(exporter))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        body = encode_spans(spans).SerializeToString()
        with self._lock:
            status = self._post(body)
        return SpanExportResult.SUCCESS if status == 200 else SpanExportResult.FAILURE

    def _post(self, body: bytes) -> int | None:
        """A connection that was closed meanwhile, or that belongs to the process before a fork, is made anew."""
        for fresh in (False, True):
            if self._connection is None or fresh:
                self.shutdown()
                self._connection = http.client.HTTPConnection(self._url.netloc, timeout=_TIMEOUT_S)
            try:
                self._connection.request("POST", self._url.path, body, _PROTOBUF)
                answer = self._connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                continue
            return answer.status
        return None

    def forget(self) -> None:
        """After a fork: the connection is the parent's."""
        self._connection = None
        self._lock = threading.Lock()

    def shutdown(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _forget(reference: weakref.ref[ToRun]) -> None:
    exporter = reference()
    if exporter is not None:
        exporter.forget()
