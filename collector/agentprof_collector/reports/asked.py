"""What a person or a program may ask for, from text to the values of a selection: command line and API alike.

Every function raises `ValueError` with what was expected, to be told to whoever asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from agentprof.rollup.many import LABEL_PREFIX
from agentprof_collector.reports.calls import call_place
from agentprof_collector.reports.many_tasks import cursor_place

_BACK = re.compile(r"([0-9]{1,6})([smhdw])")
_NUMBER = re.compile(r"0|[1-9][0-9]{15,18}")
"""Nanoseconds since 1970: shorter ones are seconds, or dates, by mistake."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def label(text: str) -> tuple[str, str]:
    """`KEY=VALUE` as a pair."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError("expected KEY=VALUE")
    return key, value


def labels(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Labels that a task has to carry, each."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise ValueError("two values of one label; no task has both")
    return found


def group_by(text: str) -> str:
    """A key of groups: `name`, `outcome` or `label.KEY`."""
    if text in ("name", "outcome") or (text.startswith(LABEL_PREFIX) and text != LABEL_PREFIX):
        return text
    raise ValueError("expected name, outcome or label.KEY")


def cursor(text: str) -> str:
    """The place where a page ended."""
    try:
        cursor_place(text)
    except ValueError as error:
        raise ValueError("expected the value of next of the page before") from error
    return text


def call_cursor(text: str) -> str:
    """The place where a page of calls ended."""
    call_place(text)
    return text


def moment_ns(text: str, now_ns: int | None = None) -> int:
    """A moment, ns since the epoch: as such a number, as date and time, or as a time before now.

    Args:
        text: `1790000000000000000`, `2026-11-30`, `2026-11-30T12:00:00Z` (with no zone: of UTC), `90m`, `7d`.
        now_ns: what a time back is counted from.
    """
    if back := _BACK.fullmatch(text):
        now = time.time_ns() if now_ns is None else now_ns
        return max(0, now - int(back[1]) * _UNITS_S[back[2]] * 1_000_000_000)
    if _NUMBER.fullmatch(text) and int(text) < 2**63:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or text.isdecimal():
        raise ValueError(
            "expected a time back from now as 90m, 24h or 7d, a date and time as 2026-11-30T12:00:00Z, "
            "or nanoseconds since 1970"
        )
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    # A store counts in 64 bits, which end in the year 2262.
    return min(max(0, (when - _EPOCH) // timedelta(microseconds=1) * 1000), 2**63 - 1)


def moment_text(at_ns: int) -> str:
    """A moment as `moment_ns` reads it: as a number, and in the first days of 1970, where that would be a mistake, as
    date and time to the microsecond."""
    number = str(at_ns)
    return (
        number if _NUMBER.fullmatch(number) else (_EPOCH + timedelta(microseconds=at_ns // 1000)).isoformat()
    )
