"""Requests of the API from bytes to answers: method, path, parameters and body are checked, in this order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentprof_collector.addresses import ID
from agentprof_collector.api import openapi, parameters, paths
from agentprof_collector.api.answers import HEADERS, Refused, answer, refusal
from agentprof_collector.api.endpoint import Endpoint
from agentprof_collector.api.operations import PREFIX, Asked, Operation
from agentprof_collector.collect.served import Served


class _Resource(Endpoint):
    """Says in JSON why there is no answer."""

    def refusal(self, refused: Refused) -> Response:
        return refusal(refused)


class Resource(_Resource):
    """What can be asked of one path.

    Args:
        operations: by method.
        served: the collector.
        limiter: how many requests may be in the store at once.
    """

    def __init__(
        self, operations: Mapping[str, Operation], served: Served, limiter: anyio.CapacityLimiter
    ) -> None:
        self._operations = operations
        self._served = served
        self._limiter = limiter

    async def answer(self, request: Request) -> Response:
        return await self._answer_to(request, self._operations)

    async def _answer_to(
        self,
        request: Request,
        operations: Mapping[str, Operation],
        task: str = "",
        *,
        without_id: bool = False,
    ) -> Response:
        if (early := without_operation(request.method, operations)) is not None:
            return early
        operation = operations["GET" if request.method == "HEAD" else request.method]
        items = request.query_params.multi_items()
        if without_id:
            items = [(name, value) for name, value in items if name != ID]
        given = parameters.read(operation.parameters, items)
        body = None if operation.body is None else await _body(request, operation.body, operation.body_bytes)
        asked = Asked(given, task, body)
        return await anyio.to_thread.run_sync(self._made, operation, asked, limiter=self._limiter)

    def _made(self, operation: Operation, asked: Asked) -> Response:
        return answer(operation.document(self._served, asked))


class TaskResource(Resource):
    """The paths that begin with the id of a task.

    Args:
        operations: by what follows the id in the path, then by method.
    """

    def __init__(
        self,
        operations: Mapping[str, Mapping[str, Operation]],
        served: Served,
        limiter: anyio.CapacityLimiter,
    ) -> None:
        super().__init__({}, served, limiter)
        self._below = operations

    async def answer(self, request: Request) -> Response:
        first, *more = paths.segments(request.scope, f"{PREFIX}/tasks")
        operations = self._below.get("".join(f"/{segment}" for segment in more))
        if operations is None:
            raise Refused(404, "there is nothing at this path (a slash in the id of a task is written %2F)")
        text = paths.task_text(first, request.query_params.multi_items())
        return await self._answer_to(request, operations, text, without_id=not first)


class Described(_Resource):
    """The document that describes the API."""

    async def answer(self, request: Request) -> Response:
        early = without_operation(request.method, {"GET"})
        return early if early is not None else answer(openapi.document())


class Nothing(_Resource):
    """Every other path of the API."""

    async def answer(self, request: Request) -> Response:
        raise Refused(404, f"there is nothing at this path; {openapi.PATH} lists what there is")


def without_operation(method: str, known: Collection[str]) -> Response | None:
    """The answer to a method that asks for nothing, or is not there; None for the others.

    Raises:
        Refused: not there.
    """
    if method in known or (method == "HEAD" and "GET" in known):
        return None
    allowed = sorted({*known, "OPTIONS", *({"HEAD"} if "GET" in known else ())})
    if method == "OPTIONS":
        return Response(None, 204, {**HEADERS, "Allow": ", ".join(allowed)})
    raise Refused(405, f"expected {' or '.join(sorted(known))}", headers={"Allow": ", ".join(allowed)})


async def read_body(request: Request, most: int, media_type: str) -> bytes:
    """The body of a request.

    Raises:
        Refused: of another type, packed, or too large.
        ClientDisconnect: it did not come whole.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
        raise Refused(415, f"expected Content-Type {media_type}")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(415, "expected a body without Content-Encoding")
    too_large = Refused(413, f"expected a body of at most {most:,} bytes", headers={"Connection": "close"})
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 15 or int(length) > most):
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


async def _body(request: Request, form: type[msgspec.Struct], most: int) -> msgspec.Struct:
    raw = await read_body(request, most, "application/json")
    try:
        return msgspec.json.decode(raw, type=form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refused(400, f"the body is not as expected: {error}") from error
