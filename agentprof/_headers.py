"""What the headers of an answer say: an id, times of the server, limits that come near, what LiteLLM's proxy charges.
Nothing else of them is kept.

They come with every answer and are read while the program waits, so each is looked at once, and what times mean is
found out where spans are read (`agentprof.engines.headers`). Limits as OpenAI sends them, with every answer, are said
where less than a tenth of something is left, or where the call was refused.

Names: https://platform.claude.com/docs/en/api/rate-limits, https://platform.openai.com/docs/guides/rate-limits (which
Groq and others follow), https://inference-docs.cerebras.ai/support/rate-limits,
https://docs.litellm.ai/docs/proxy/response_headers.
"""

from __future__ import annotations

from typing import Any, Final

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
_MANY: Final = b"9" * 32
"""More than any limit."""
_ID_NAME: Final = b"x-request-id"
_OTHER_IDS: Final = (b"request-id", b"apim-request-id", b"x-amzn-requestid")
_WAITS: Final = {b"retry-after-ms": 0.001, b"retry-after": 1.0}
_COST: Final = b"x-litellm-response-cost"
_PROCESSING: Final = b"openai-processing-ms"
_SAID_PROCESSING: Final = f"{attributes.HEADER}openai-processing-ms"
_TIMES: Final = frozenset(name.encode() for name in HEADERS)
_OTHER_TIMES: Final = _TIMES - {_PROCESSING}
_ID_CHARS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
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
        if isinstance(headers, (list, tuple)):
            found = {small: value for name, value in headers if (small := name.lower()) in _WANTED}
        else:
            found = {name: value for _, name, value in headers._list if name in _WANTED}
        if not found:
            return
        has_rare = not _RARE.isdisjoint(found)
        identity = found.get(_ID_NAME)
        if identity is None and has_rare:
            identity = next((found[name] for name in _OTHER_IDS if name in found), None)
        if identity and len(identity) <= _LONGEST_ID and not identity.translate(None, _ID_CHARS):
            said[attributes.REQUEST_ID] = identity.decode()
        if refused:
            _say_limits(said, found, refused=True)
            _say_wait(said, found)
            return
        if has_rare and _COST in found and answer.cost_usd is None:
            # 0 beside an answer is a model that the proxy has no price for.
            answer.cost_usd = dollars(found[_COST]) or None
        if (
            len(found.get(_REQUESTS_LEFT, _MANY)) < len(found.get(_MOST_REQUESTS, b""))
            or len(found.get(_TOKENS_LEFT, _MANY)) < len(found.get(_MOST_TOKENS, b""))
            or has_rare
        ):
            _say_limits(said, found, refused=False)
        if until_headers_ns is None and not has_rare:
            processing = found.get(_PROCESSING)
            if processing is not None and len(processing) <= _LONGEST_VALUE:
                said[_SAID_PROCESSING] = processing.decode("latin-1")
        elif not _TIMES.isdisjoint(found):
            _say_times(said, found, answer, until_headers_ns)
    except Exception:
        _guard.failed("reading headers")


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
