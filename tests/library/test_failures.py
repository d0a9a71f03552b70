"""What an exchange is said to have failed by: whether its request may have been billed depends on it."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import requests
from support.model_server import CHAT

from agentprof import attributes
from agentprof._failures import failure_kind
from agentprof.testing import capture

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


class Cancelled(BaseException):
    """As that of trio, which agentprof does not import."""


class GreenletExit(BaseException):
    """As that of greenlet."""


class SoftTimeLimitExceeded(Exception):
    """As that of celery, raised by a signal in the middle of anything."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncio.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
        (SystemExit(1), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (Cancelled(), "cancelled"),
        (GreenletExit(), "cancelled"),
        (SoftTimeLimitExceeded(), "cancelled"),
        (BaseExceptionGroup("unhandled errors in a TaskGroup", [Cancelled()]), "cancelled"),
        (BaseExceptionGroup("", [BaseExceptionGroup("", [Cancelled(), Cancelled()])]), "cancelled"),
        (BaseExceptionGroup("", [Cancelled(), httpx.ReadTimeout("")]), "timeout"),
        (ExceptionGroup("", [httpx.ConnectError("")]), "connection"),
        (httpx.ReadError(""), "cut"),
        (httpx.PoolTimeout(""), "connection"),
        (requests.exceptions.ChunkedEncodingError(), "cut"),
        (requests.exceptions.InvalidURL(), "connection"),
        (TimeoutError(), "timeout"),
        (ValueError(), "connection"),
        (None, "connection"),
    ],
)
def test_kinds(error: BaseException | None, kind: str) -> None:
    """By their classes; what stops a program, and is no error at all, leaves a request that is on its way."""
    assert failure_kind(error) == kind


@pytest.mark.parametrize("stops", [SystemExit, Cancelled])
def test_a_program_that_is_stopped_in_a_call(stops: type[BaseException]) -> None:
    """Its request had left: it counts among those that may be billed."""

    class Stops(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise BaseExceptionGroup("of a group of tasks", [stops()])

    with capture() as captured, httpx.Client(transport=Stops()) as client:
        with pytest.raises(BaseExceptionGroup) as raised:
            client.post("http://127.0.0.1/v1/chat/completions", json=BODY)
        assert [type(one) for one in raised.value.exceptions] == [stops]
    (call,) = captured.spans
    assert call.attributes is not None
    assert call.attributes[attributes.ATTEMPT_STATUS] == ("cancelled",)


def test_a_coroutine_that_is_closed_in_a_call() -> None:
    """As when its event loop goes."""

    class Waits(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.get_running_loop().create_future()
            return httpx.Response(200, json=CHAT)

    async def main() -> None:
        async with httpx.AsyncClient(transport=Waits()) as client:
            waiting = client.post("http://127.0.0.1/v1/chat/completions", json=BODY)
            waiting.send(None)
            waiting.close()

    with capture() as captured:
        asyncio.run(main())
    (call,) = captured.spans
    assert call.attributes is not None
    assert call.attributes[attributes.ATTEMPT_STATUS] == ("cancelled",)
