"""Compares what a program was given in two runs: types by identity, values, exceptions with their chains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
from pydantic import BaseModel

_PLAIN = (str, bytes, int, float, bool, type(None), type)
_REQUESTS = (httpx.Request, httpx2.Request)
_RESPONSES = (httpx.Response, httpx2.Response)
_RANDOM = re.compile(r"(?<=python-retry-)[0-9a-f-]{36}|(?<=cancel scope )[0-9a-f]+|(?<=0x)[0-9a-f]+")
"""Keys and addresses in texts."""
_ANSWERS = ("openai._legacy", "openai._resp", "anthropic._resp", "groq._resp")
"""Modules of what stands around an answer."""
_VARYING = {b"date", b"traceparent"}
"""Headers that are not compared here: the clock's, and the one that is looked at where requests arrive."""


def differences(left: Any, right: Any, where: str = "it") -> Iterator[str]:
    """Everything in which two results differ, each with its place."""
    yield from _compare(left, right, where, set())


def _compare(left: Any, right: Any, where: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    if type(left) is not type(right):
        yield f"{where}: {type(left)} is not {type(right)}"
        return
    if isinstance(left, _PLAIN):
        if left != right and _steady(left) != _steady(right):
            yield f"{where}: {left!r} is not {right!r}"
        return
    if (id(left), id(right)) in seen:
        return
    seen.add((id(left), id(right)))
    for name, a, b in _parts(left, right):
        yield from _compare(a, b, f"{where}.{name}", seen)


def _parts(left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, (list, tuple)):
        yield "len()", len(left), len(right)
        for position, (a, b) in enumerate(zip(left, right, strict=False)):
            yield str(position), a, b
        return
    if isinstance(left, dict):
        yield "keys()", [str(key) for key in left], [str(key) for key in right]
        for key in left:
            yield str(key), left[key], right.get(key)
        return
    if isinstance(left, BaseException):
        yield "str()", str(left), str(right)
        for name in ("args", "__cause__", "__context__", "__suppress_context__"):
            yield name, getattr(left, name), getattr(right, name)
    elif isinstance(left, _REQUESTS):
        yield "method", left.method, right.method
        yield "url", str(left.url), str(right.url)
        yield "headers", _headers(left), _headers(right)
        yield "body", vars(left).get("_content"), vars(right).get("_content")
        yield "extensions", list(left.extensions), list(right.extensions)
        return
    elif isinstance(left, _RESPONSES):
        for name in ("status_code", "http_version", "is_closed", "is_stream_consumed", "request"):
            yield name, getattr(left, name), getattr(right, name)
        yield "headers", _headers(left), _headers(right)
        yield "body", vars(left).get("_content"), vars(right).get("_content")
        yield "vars()", _names(left), _names(right)
        return
    elif isinstance(left, BaseModel):
        yield "fields set", sorted(left.model_fields_set), sorted(right.model_fields_set)
        yield "extra", left.__pydantic_extra__, right.__pydantic_extra__
        yield "private", left.__pydantic_private__, right.__pydantic_private__
    held = getattr(left, "__dict__", None)
    if held is None:
        return
    yield "vars()", _names(left), _names(right)
    module = type(left).__module__
    if isinstance(left, (BaseException, BaseModel)) or module.startswith(_ANSWERS):
        for name, value in held.items():
            yield name, value, vars(right).get(name)


def _steady(value: Any) -> Any:
    return _RANDOM.sub("...", value) if isinstance(value, str) else value


def _names(value: Any) -> list[str]:
    return sorted(vars(value))


def _headers(message: Any) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in message.headers.raw if name.lower() not in _VARYING]
