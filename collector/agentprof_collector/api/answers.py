"""Answers of the API: JSON that is not kept, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from agentprof_collector.reports import Document, to_json

HEADERS: Mapping[str, str] = {
    # Figures change with every span.
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """A request that is not answered with what it asked for.

    Args:
        status: of HTTP.
        message: what was expected and what came, or what to do.
        parameter: of the request, where one is to blame.
        headers: further ones of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.headers = dict(headers or {})


class ErrorDetail(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was wrong."""

    status: int
    message: str
    """A sentence for people."""
    parameter: str | None = None
    """The parameter to blame; absent where none is."""


class ErrorAnswer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer to a request that failed."""

    error: ErrorDetail


def answer(document: Document, status: int = 200) -> Response:
    """A document as it is sent."""
    return Response(to_json(document), status, HEADERS, "application/json")


def refusal(refused: Refused) -> Response:
    """The answer that says why."""
    detail = ErrorDetail(status=refused.status, message=str(refused), parameter=refused.parameter)
    document: Document = msgspec.to_builtins(ErrorAnswer(error=detail))
    return Response(to_json(document), refused.status, {**HEADERS, **refused.headers}, "application/json")
