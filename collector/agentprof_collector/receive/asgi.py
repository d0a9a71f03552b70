"""OTLP over HTTP: three paths, protobuf or JSON, answered when what they hold is durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Final

import msgspec
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from agentprof_collector.receive.exchange import (
    BODY_LIMIT,
    Answer,
    Budget,
    Media,
    Refused,
    Request,
    Signal,
    put_off,
    too_large,
)

Submit = Callable[[Request], Future[Answer]]
Note = Callable[[str, Signal, str], None]
"""Told of each answer: what carried it, what it was about, and its status."""

IDLE_S: Final = 30.0
"""How long a sender may say nothing in the middle of a request."""
_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_SIGNALS: Final[tuple[Signal, ...]] = ("traces", "logs", "metrics")
_METHODS: Final = ("POST", "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")
_GRPC_CODES: Final = {
    400: 3,
    401: 16,
    403: 7,
    404: 5,
    405: 12,
    408: 4,
    411: 3,
    413: 8,
    415: 3,
    500: 13,
    503: 14,
}


def routes(submit: Submit, budget: Budget, note: Note) -> list[Route]:
    """`/v1/traces`, `/v1/logs` and `/v1/metrics`.

    Args:
        submit: takes a request whose bytes are counted in the budget.
        budget: bytes that may be read or wait.
        note: told of each answer.
    """

    def at(signal: Signal) -> list[Route]:
        async def export(sent: HttpRequest) -> Response:
            try:
                answer = await _exchange(sent, signal, submit, budget)
                response = _accepted(_media(sent), signal, answer)
            except Refused as refused:
                response = refusal(refused, sent.headers.get("content-type", ""))
            except asyncio.CancelledError:
                # The server ends and waits no longer: nothing of this was taken.
                stopping = put_off("the collector is stopping")
                response = refusal(stopping, sent.headers.get("content-type", ""))
            note("http", signal, str(response.status_code))
            return response

        # Senders do not follow to another address: with a slash at its end it is the same one.
        return [Route(path, export, methods=list(_METHODS)) for path in (f"/v1/{signal}", f"/v1/{signal}/")]

    return [route for signal in _SIGNALS for route in at(signal)]


async def not_found(sent: HttpRequest, error: Exception) -> Response:
    """The answer at all other paths."""
    return refusal(Refused(404, "spans are received at /v1/traces"), sent.headers.get("content-type", ""))


def refusal(refused: Refused, content_type: str = "") -> Response:
    """The answer to a request that is not taken: a Status, in the type of the request.

    A body that was not read would be taken for the next request: the connection ends.
    """
    is_json = content_type.partition(";")[0].strip().lower() == _JSON
    code = _GRPC_CODES.get(refused.status, 2)
    if is_json:
        body = msgspec.json.encode({"code": code, "message": str(refused)})
    else:
        body = Status(code=code, message=str(refused)).SerializeToString()
    headers = {"connection": "close", **refused.headers}
    return Response(body, refused.status, headers, media_type=_JSON if is_json else _PROTOBUF)


def _accepted(media: Media, signal: Signal, answer: Answer) -> Response:
    """Of a request that was taken whole the partial success is not set."""
    is_partial = signal == "traces" and answer.rejected > 0
    if media == "json":
        said = {"rejectedSpans": str(answer.rejected), "errorMessage": answer.message}
        body = msgspec.json.encode({"partialSuccess": said} if is_partial else {})
        return Response(body, media_type=_JSON)
    response = ExportTraceServiceResponse()
    if is_partial:
        response.partial_success.rejected_spans = answer.rejected
        response.partial_success.error_message = answer.message
    # The three responses differ only in the name of a count, which is not set for logs and metrics.
    return Response(response.SerializeToString(), media_type=_PROTOBUF)


async def _exchange(sent: HttpRequest, signal: Signal, submit: Submit, budget: Budget) -> Answer:
    if sent.method != "POST":
        raise Refused(405, "expected POST", allow="POST")
    media, encoding = _media(sent), sent.headers.get("content-encoding", "")
    # No name for the body here: a refusal would hold it together with this call.
    answer = submit(Request(signal, media, encoding, await _body(sent, budget)))
    return await asyncio.wrap_future(answer)


def _media(sent: HttpRequest) -> Media:
    match sent.headers.get("content-type", "").partition(";")[0].strip().lower():
        case "application/x-protobuf":
            return "protobuf"
        case "application/json":
            return "json"
    raise Refused(415, f"expected Content-Type {_PROTOBUF} or {_JSON}")


async def _body(sent: HttpRequest, budget: Budget) -> bytes:
    """The whole body, counted in the budget; nothing is counted when it raises."""
    length = sent.headers.get("content-length", "")
    if length.isdigit() and int(length) > BODY_LIMIT:
        raise too_large()
    parts: list[bytes] = []
    size_bytes = 0
    try:
        async for part in _parts(sent):
            budget.take(len(part))
            size_bytes += len(part)
            parts.append(part)
            if size_bytes > BODY_LIMIT:
                raise too_large()
    except BaseException:
        budget.give_back(size_bytes)
        raise
    return b"".join(parts)


async def _parts(sent: HttpRequest) -> AsyncIterator[bytes]:
    stream = sent.stream()
    while True:
        try:
            async with asyncio.timeout(IDLE_S):
                part = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, f"nothing came for {IDLE_S:.0f} s") from None
        except ClientDisconnect:
            raise Refused(400, "the body is shorter than announced") from None
        yield part
