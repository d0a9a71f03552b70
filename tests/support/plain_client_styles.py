"""What ways to call SDKs on plain HTTP clients share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.model_server import ModelServer, Reply
from support.styles import Style

REFUSED = Reply.json(
    {"error": {"code": 429, "message": "slow", "status": "EXHAUSTED"}}, 429, retry_after_ms="30"
)
BROKEN = Reply.json({"error": {"code": 500, "message": "broken", "status": "X"}}, 500, retry_after_ms="30")
TRIES = (REFUSED, BROKEN)
STATUSES = ("429", "500")
ASKED = "Say hello."


def base_of(server: ModelServer) -> str:
    """Where these SDKs send: they add the version of the API themselves."""
    return server.url.removesuffix("/v1")


def refused(needs: str, call: Callable[[ModelServer], Any]) -> Style:
    """A refusal that is not repeated."""
    expects = ("one span", "attempts", "refusal")
    return Style("refused", needs, (REFUSED,), lambda server: _caught(call, server), expects, ("429",))


def timeout(needs: str, reply: Reply, call: Callable[[ModelServer], Any]) -> Style:
    """An answer that does not come in time."""
    slow = Reply(reply.body, headers=reply.headers, wait_s=0.6)
    expects = ("one span", "attempts", "error")
    return Style(
        "timeout", needs, (slow,), lambda server: _caught(call, server), expects, ("timeout",), "ReadTimeout"
    )


def repeated(name: str, needs: str, reply: Reply, call: Callable[[ModelServer], Any], expects: Any) -> Style:
    """An answer to the third attempt."""
    return Style(name, needs, (*TRIES, reply), call, (*expects, "pauses"), STATUSES)


def _caught(call: Callable[[ModelServer], Any], server: ModelServer) -> str:
    """What kind of error a call ends in."""
    try:
        call(server)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return "none"
