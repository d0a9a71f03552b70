"""The UTC day and instant a price is asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NS_PER_DAY = 86_400 * 10**9

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_DAY = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).days


def split(ns: int) -> tuple[int, int]:
    """Days since the epoch and ns into the day. Times no calendar has are its first or last day."""
    day, rest = divmod(ns, NS_PER_DAY)
    return min(max(day, 0), _LAST_DAY), rest


def instant(day: int, ns: int = 0) -> datetime:
    """The aware UTC time so many ns into a day, to the microsecond."""
    return _EPOCH + timedelta(days=day, microseconds=ns // 1000)
