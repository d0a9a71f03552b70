"""Who may speak to the collector over HTTP.

On loopback every program of this machine may, but no page in a browser: it could come from anywhere, also
under a name of its own that points to this machine. Beyond loopback whoever knows the token may.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentprof_collector.api import answers
from agentprof_collector.receive.asgi import refusal
from agentprof_collector.receive.exchange import Refused

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
HEALTH_PATH: Final = "/healthz"
_OTLP: Final = "/v1/"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """An address that only this machine reaches."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware that lets through what may speak to `app`.

    Args:
        app: what is guarded.
        token: asked of everyone, as a bearer token or as the password of basic authentication; None: of nobody.
        hosts: names beside loopback that the collector answers to, where no token is asked for.
    """

    def __init__(self, app: ASGIApp, *, token: str | None = None, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._token = token
        self._hosts = LOOPBACK | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope, Headers(scope=scope))
            except Refused as refused:
                await _said(refused, scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if self._token is None:
            if _name(host) not in self._hosts:
                raise Refused(403, "this name is not one of the collector's; ask for 127.0.0.1 or localhost")
        elif scope["path"] != HEALTH_PATH and not _shows(headers, self._token):
            raise Refused(
                401,
                "expected the collector's token as Authorization: Bearer TOKEN",
                www_authenticate='Basic realm="agentprof", charset="UTF-8"',
            )
        origin = headers.get("origin")
        if origin is None or (scope["method"] in _READS and not scope["path"].startswith(_OTLP)):
            return
        if scope["path"].startswith(_OTLP) or origin.lower().partition("://")[2] != host.lower():
            raise Refused(403, "a page of another origin may not write here")


def _name(host: str) -> str:
    """The name in a Host header, in lower case, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _shows(headers: Headers, token: str) -> bool:
    kind, _, value = headers.get("authorization", "").partition(" ")
    given = value.strip().encode("latin-1")  # the bytes as they came
    if kind.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except ValueError:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(given, token.encode())


def _said(refused: Refused, scope: Scope) -> Response:
    if scope["path"].startswith(_OTLP):
        return refusal(refused, Headers(scope=scope).get("content-type", ""))
    headers = {"connection": "close", **refused.headers}
    return answers.refusal(answers.Refused(refused.status, str(refused), headers=headers))
