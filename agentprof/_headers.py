"""What the headers of an answer say of the provider's limits: a few numbers and an id, nothing else of them.

Names: https://platform.claude.com/docs/en/api/rate-limits, https://platform.openai.com/docs/guides/rate-limits (which
Groq and others follow), https://inference-docs.cerebras.ai/support/rate-limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from opentelemetry.util.types import AttributeValue

from agentprof import _guard, attributes

_LIMITS: Final = {
    f"anthropic-ratelimit-{what}-{end}": f"{attributes.RATE_LIMIT}{what.replace('-', '_')}.{end}"
    for what in ("requests", "tokens", "input-tokens", "output-tokens")
    for end in ("limit", "remaining")
} | {
    f"x-ratelimit-{end}-{what}{period}": f"{attributes.RATE_LIMIT}{what}.{end}"
    for what, period in (("requests", ""), ("tokens", ""), ("requests", "-day"), ("tokens", "-minute"))
    for end in ("limit", "remaining")
}
_IDS: Final = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid")
_WANTED: Final[dict[str, str]] = _LIMITS | dict.fromkeys(_IDS, attributes.REQUEST_ID)
_WAITS: Final = {"retry-after-ms": 0.001, "retry-after": 1.0}
_ID: Final = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")
_DIGITS: Final = 16
_LONGEST_S: Final = 1e9
_KNOWN: Final = 1024

_attribute_of: dict[bytes, str | None] = {}
"""By name as it came, so that each is looked at once."""


def say_headers(
    said: dict[str, AttributeValue], headers: Iterable[tuple[bytes, bytes]], *, refused: bool
) -> None:
    """Add what is wanted of the headers of an answer.

    Args:
        headers: Name and value of each, as they came.
        refused: Only then does it matter how long to wait.
    """
    try:
        _say_limits(said, headers)
        if refused:
            _say_wait(said, headers)
    except Exception:
        _guard.failed("reading headers")


def _say_limits(said: dict[str, AttributeValue], headers: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        try:
            attribute = _attribute_of[name]
        except KeyError:
            attribute = _learnt(name)
        if attribute is None:
            continue
        if attribute is attributes.REQUEST_ID:
            if _ID.fullmatch(value):
                said.setdefault(attribute, value.decode())
        elif value.isdigit() and len(value) < _DIGITS:
            said[attribute] = int(value)


def _learnt(name: bytes) -> str | None:
    found = _WANTED.get(name.decode("latin-1").lower())
    if len(_attribute_of) < _KNOWN:
        _attribute_of[name] = found
    return found


def _say_wait(said: dict[str, AttributeValue], headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Seconds or milliseconds; of a date nothing is said."""
    given = {name.decode("latin-1").lower(): value for name, value in headers}
    for name, unit_s in _WAITS.items():
        try:
            seconds = float(given[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < _LONGEST_S:
            said[attributes.RETRY_AFTER] = seconds
            return
