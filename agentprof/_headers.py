"""What the headers of an answer say: an id, times of the server, limits that come near, what LiteLLM's proxy charges.
Nothing else of them is kept.

They come with every answer and are read while the program waits. Therefore where the wanted ones stand is kept for the
next answer with the same names, and what times mean is found out where spans are read (`agentprof.engines.headers`).
Limits as OpenAI sends them, with every answer, are said where less than a tenth of something is left, or where the
call was refused.

Names: https://platform.claude.com/docs/en/api/rate-limits, https://platform.openai.com/docs/guides/rate-limits (which
Groq and others follow), https://inference-docs.cerebras.ai/support/rate-limits,
https://docs.litellm.ai/docs/proxy/response_headers.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final, NamedTuple

from opentelemetry.util.types import AttributeValue

from agentprof import _guard, attributes
from agentprof.dialects import Answer
from agentprof.dialects._openai_usage import dollars
from agentprof.engines import HEADERS

_LIMITS: Final = [
    (
        f"anthropic-ratelimit-{what}-limit".encode(),
        f"anthropic-ratelimit-{what}-remaining".encode(),
        what.replace("-", "_"),
    )
    for what in ("requests", "tokens", "input-tokens", "output-tokens")
]
_OF_ANTHROPIC: Final = frozenset(name for pair in _LIMITS for name in pair[:2])
_COMMON_LIMITS: Final = [
    (f"x-ratelimit-limit-{name}".encode(), f"x-ratelimit-remaining-{name}".encode(), what)
    for name, what in (
        ("requests", "requests"),
        ("tokens", "tokens"),
        ("requests-day", "requests"),
        ("tokens-minute", "tokens"),
    )
]
_MOST_REQUESTS, _REQUESTS_LEFT, _ = _COMMON_LIMITS[0]
_MOST_TOKENS, _TOKENS_LEFT, _ = _COMMON_LIMITS[1]
_OTHER_LIMITS: Final = _OF_ANTHROPIC | {name for pair in _COMMON_LIMITS[2:] for name in pair[:2]}
_ID_NAME: Final = b"x-request-id"
_OTHER_IDS: Final = (b"request-id", b"apim-request-id", b"x-amzn-requestid")
_WAITS: Final = {b"retry-after-ms": 0.001, b"retry-after": 1.0}
_COST: Final = b"x-litellm-response-cost"
_PROCESSING: Final = b"openai-processing-ms"
_SAID_PROCESSING: Final = f"{attributes.HEADER}openai-processing-ms"
_TIMES: Final = frozenset(name.encode() for name in HEADERS)
_OTHER_TIMES: Final = _TIMES - {_PROCESSING}
_ID_CHARS: Final = bytes.maketrans(b"_.:-", b"0000")
"""Makes what an id may have beside letters and digits one of them."""
_LONGEST_ID: Final = 128
_DIGITS: Final = 16
_LONGEST_S: Final = 1e9
_LONGEST_VALUE: Final = 256
_NEAR: Final = 10
"""One part of so many left is near the limit: a number with fewer digits than the limit."""

_RARE: Final = frozenset({_COST, *_OTHER_IDS, *_OTHER_LIMITS, *_OTHER_TIMES})
"""What is wanted and OpenAI does not send: most answers have none of it."""
_WANTED: Final = _RARE.union(
    _WAITS, _TIMES, (_ID_NAME, *(name for pair in _COMMON_LIMITS for name in pair[:2]))
)


def pairs(headers: Any) -> list[tuple[bytes, bytes]]:
    """Names and values as they came, of what a seam keeps: such pairs, or the headers of httpx or httpx2."""
    return headers if isinstance(headers, (list, tuple)) else headers.raw  # type: ignore[return-value]


class _Layout(NamedTuple):
    """Which headers an answer has, and where those stand that are wanted; of two of one name the last."""

    names: list[bytes]
    places: dict[bytes, int]
    identity: int | None
    processing: int | None
    limits: list[tuple[int, int]]
    """Of the two limits that OpenAI sends: what is left, and of how many."""
    has_rare: bool


_layouts: Final[dict[int, list[_Layout]]] = {}
"""By the number of headers: a server sends the same ones again and again, so that they are seldom looked up."""
_MOST_LAYOUTS: Final = 8
_MOST_HEADERS: Final = 64
_LONGEST_NAMES: Final = 2048
_name_of: Final = itemgetter(1)


def say_headers(
    said: dict[str, AttributeValue],
    headers: Any,
    answer: Answer,
    refused: bool,
    until_headers_ns: int | None,
) -> None:
    """Add what is wanted of the headers of an answer; of a stream its times are noted in `answer`.

    Args:
        headers: See `pairs`.
        refused: Only then does it matter how long to wait.
        until_headers_ns: From the request to the headers, of a stream.
    """
    try:
        kind = type(headers)
        if kind is list or kind is tuple:
            rows = [(name, name.lower(), value) for name, value in headers]
        else:
            rows = headers._list  # the second of each in small letters
        names = [*map(_name_of, rows)]
        for layout in _layouts.get(len(names), ()):
            if layout[0] == names:
                break
        else:
            layout = _look_up(names)
        _, places, identity, processing, limits, has_rare = layout
        if identity is not None:
            text = rows[identity][2]
            if len(text) <= _LONGEST_ID and text.translate(_ID_CHARS).isalnum():
                said[attributes.REQUEST_ID] = text.decode()
        if refused or has_rare:
            found = {name: rows[place][2] for name, place in places.items()}
            _say_others(said, found, answer, refused, until_headers_ns)
            return
        for remaining, limit in limits:
            left, most = rows[remaining][2], rows[limit][2]
            # Less than a tenth may be left: compared as digits, without making numbers of them.
            if len(left) < len(most) and (left + b"0").rjust(len(most)) < most:
                _say_limits(said, {name: rows[place][2] for name, place in places.items()}, refused=False)
                break
        if processing is not None:
            value = rows[processing][2]
            if until_headers_ns is not None:
                _say_times(said, {_PROCESSING: value}, answer, until_headers_ns)
            elif len(value) <= _LONGEST_VALUE:
                said[_SAID_PROCESSING] = value.decode("latin-1")
    except Exception:
        _guard.failed("reading headers")


def _look_up(names: list[bytes]) -> _Layout:
    places = {name: place for place, name in enumerate(names) if name in _WANTED}
    usual = ((_REQUESTS_LEFT, _MOST_REQUESTS), (_TOKENS_LEFT, _MOST_TOKENS))
    layout = _Layout(
        names,
        places,
        places.get(_ID_NAME),
        places.get(_PROCESSING),
        [(places[left], places[most]) for left, most in usual if left in places and most in places],
        not _RARE.isdisjoint(places),
    )
    if len(names) <= _MOST_HEADERS and sum(map(len, names)) <= _LONGEST_NAMES:
        alike = _layouts.setdefault(len(names), [])
        if len(alike) < _MOST_LAYOUTS:
            alike.append(layout)
    return layout


def _say_others(
    said: dict[str, AttributeValue],
    found: dict[bytes, bytes],
    answer: Answer,
    refused: bool,
    until_headers_ns: int | None,
) -> None:
    """Add what a refusal says, or an answer with headers that OpenAI does not send."""
    if _ID_NAME not in found:
        identity = next((found[name] for name in _OTHER_IDS if name in found), b"")
        if len(identity) <= _LONGEST_ID and identity.translate(_ID_CHARS).isalnum():
            said[attributes.REQUEST_ID] = identity.decode()
    _say_limits(said, found, refused)
    if refused:
        _say_wait(said, found)
        return
    if _COST in found and answer.cost_usd is None:
        # 0 beside an answer is a model that the proxy has no price for.
        answer.cost_usd = dollars(found[_COST]) or None
    if not _TIMES.isdisjoint(found):
        _say_times(said, found, answer, until_headers_ns)


def _say_times(
    said: dict[str, AttributeValue], found: dict[bytes, bytes], answer: Answer, until_headers_ns: int | None
) -> None:
    told = {
        name.decode(): value.decode("latin-1")
        for name, value in found.items()
        if name in _TIMES and len(value) <= _LONGEST_VALUE
    }
    if until_headers_ns is not None:
        from agentprof.engines import headers as times

        times.read(told, answer, until_headers_ns)
        return
    for name, text in told.items():
        said[attributes.HEADER + name] = text


def _say_limits(said: dict[str, AttributeValue], found: dict[bytes, bytes], refused: bool) -> None:
    for limit, remaining, what in _COMMON_LIMITS:
        if remaining in found and limit in found and (refused or len(found[remaining]) < len(found[limit])):
            most, left = _number(found[limit]), _number(found[remaining])
            if refused or (most is not None and left is not None and left * _NEAR < most):
                _say_limit(said, what, most, left)
    if not _OF_ANTHROPIC.isdisjoint(found):
        for limit, remaining, what in _LIMITS:
            _say_limit(said, what, _number(found.get(limit)), _number(found.get(remaining)))


def _say_limit(said: dict[str, AttributeValue], what: str, most: int | None, left: int | None) -> None:
    if most is not None:
        said[f"{attributes.RATE_LIMIT}{what}.limit"] = most
    if left is not None:
        said[f"{attributes.RATE_LIMIT}{what}.remaining"] = left


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < _DIGITS else None


def _say_wait(said: dict[str, AttributeValue], found: dict[bytes, bytes]) -> None:
    """Seconds or milliseconds; of a date nothing is said."""
    for name, unit_s in _WAITS.items():
        try:
            seconds = float(found[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < _LONGEST_S:
            said[attributes.RETRY_AFTER] = seconds
            return
