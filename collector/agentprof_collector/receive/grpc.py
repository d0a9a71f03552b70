"""OTLP over gRPC: messages come as bytes, and are answered when what they hold is durable."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from agentprof_collector.errors import AgentprofError
from agentprof_collector.receive.exchange import (
    BODY_LIMIT,
    RETRY_AFTER_S,
    Answer,
    Budget,
    Refused,
    Request,
    Signal,
)

Submit = Callable[[Request], Future[Answer]]
Note = Callable[[str, Signal, str], None]
"""Told of each answer: what carried it, what it was about, and its code."""

_AT_ONCE: Final = 8
"""Requests whose bytes are in memory at the same time; the transport holds the others back."""
MESSAGE_S: Final = 10.0
"""How long a message may take to come, as it has one of the few places: what exporters wait for an answer."""
_STREAMS: Final = 100
"""Requests of one connection that are begun at the same time."""
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
_SIGNALS: Final[Mapping[str, Signal]] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
}
_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class GrpcReceiver:
    """A gRPC server with the three export services of OTLP.

    Args:
        host: name or address to listen on.
        port: 0: the system chooses.
        submit: takes a request whose bytes are counted in the budget.
        budget: bytes that may wait.
        note: told of each answer.
        token: what a sender has to show as `authorization: Bearer TOKEN`; None: nothing.

    Raises:
        AgentprofError: the port cannot be had.
    """

    def __init__(
        self, host: str, port: int, submit: Submit, budget: Budget, note: Note, token: str | None = None
    ) -> None:
        options = [
            ("grpc.max_receive_message_length", BODY_LIMIT),
            # Two collectors on one port would each get some of the spans.
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", _STREAMS),
        ]
        self._server = grpc.server(
            ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="agentprof-grpc"), options=options
        )
        self._patience = _Patience()
        self._server.add_generic_rpc_handlers((_Exports(submit, budget, note, token, self._patience),))
        shown = f"[{host}]" if ":" in host else host
        try:
            port = self._server.add_insecure_port(f"{shown}:{port}")
        except RuntimeError as error:
            raise AgentprofError(
                f"cannot listen on {shown}:{port} for gRPC. Choose another port with --otlp-grpc-port "
                "(0: the system chooses)."
            ) from error
        self.target = f"{_EVERYWHERE.get(host, shown)}:{port}"
        """`host:port`, as a program of this machine reaches it."""

    def start(self) -> None:
        """Take requests."""
        self._patience.start()
        self._server.start()

    def close(self, grace_s: float) -> None:
        """Take no more requests, and finish those that are being answered."""
        self._server.stop(grace_s).wait()
        self._patience.close()


class _Patience:
    """Ends the exchanges whose message does not come."""

    def __init__(self) -> None:
        # In the order in which they began.
        self._waiting: dict[grpc.ServicerContext, float] = {}
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentprof-grpc-patience", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    @contextmanager
    def limited(self, context: grpc.ServicerContext) -> Iterator[None]:
        """The block ends in time, if it waits for what the other side sends."""
        with self._guard:
            self._waiting[context] = time.monotonic()
        try:
            yield
        finally:
            with self._guard:
                self._waiting.pop(context, None)

    def _run(self) -> None:
        while not self._closing.wait(1.0):
            with self._guard:
                late = [
                    context
                    for context, began_s in self._waiting.items()
                    if began_s + MESSAGE_S < time.monotonic()
                ]
            for context in late:
                context.cancel()


class _Exports(grpc.GenericRpcHandler):
    def __init__(
        self, submit: Submit, budget: Budget, note: Note, token: str | None, patience: _Patience
    ) -> None:
        self._submit = submit
        self._budget = budget
        self._note = note
        self._token = token
        self._patience = patience

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        signal = _SIGNALS.get(handler_call_details.method)
        if signal is None:
            return None
        # Without a deserializer the message comes as it was sent, for the reader of both transports. As a
        # stream of one it is asked for here: only of who shows the token, and not for ever.
        return grpc.stream_unary_rpc_method_handler(
            lambda messages, context: self._export(signal, messages, context)
        )

    def _export(self, signal: Signal, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        try:
            self._check_token(context)
            with self._patience.limited(context):
                body = next(messages, None)
            if body is None:
                raise Refused(400, "expected a message")
            self._budget.take(len(body))
            answer = self._submit(Request(signal, "protobuf", "", body)).result()
        except Refused as refused:
            code = _CODES.get(refused.status, grpc.StatusCode.INTERNAL)
            self._note("grpc", signal, code.name)
            context.set_trailing_metadata((("grpc-status-details-bin", _details(code, str(refused))),))
            context.abort(code, str(refused))
        self._note("grpc", signal, "OK")
        return _response(signal, answer)

    def _check_token(self, context: grpc.ServicerContext) -> None:
        if self._token is None:
            return
        said = dict(context.invocation_metadata()).get("authorization", "")
        said = said.decode("latin-1") if isinstance(said, bytes) else said
        kind, _, given = said.partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.encode(), self._token.encode()):
            raise Refused(401, "expected the collector's token as authorization: Bearer TOKEN")


def _details(code: grpc.StatusCode, message: str) -> bytes:
    """The status in full: without a time to come again a sender would drop what it was put off with."""
    status = Status(code=code.value[0], message=message)
    if code is grpc.StatusCode.UNAVAILABLE:
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S)))
    serialized: bytes = status.SerializeToString()
    return serialized


def _response(signal: Signal, answer: Answer) -> bytes:
    """Of a request that was taken whole the partial success is not set."""
    if signal == "traces":
        traces = ExportTraceServiceResponse()
        if answer.rejected:
            traces.partial_success.rejected_spans = answer.rejected
            traces.partial_success.error_message = answer.message
        return traces.SerializeToString()
    if signal == "logs":
        return ExportLogsServiceResponse().SerializeToString()
    return ExportMetricsServiceResponse().SerializeToString()
