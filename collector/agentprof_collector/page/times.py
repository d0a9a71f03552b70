"""Moments as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US = 253_402_300_799_000_000
"""The end of the year 9999; spans say what they like."""


class Moment(NamedTuple):
    """A moment in three forms."""

    machine: str
    """ISO 8601, for `datetime` of `<time>`."""
    date: str
    ago: str


def moment(at_ns: int, now_ns: int) -> Moment:
    """A moment, ns since the epoch, as seen from another."""
    when = _EPOCH + timedelta(microseconds=min(max(at_ns // 1000, 0), _LAST_US))
    return Moment(
        when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        when.strftime("%Y-%m-%d %H:%M:%S UTC"),
        _ago(now_ns - at_ns, when),
    )


def _ago(ns: int, when: datetime) -> str:
    seconds = ns // 1_000_000_000
    if seconds < -5:
        return "in the future"
    if seconds < 5:
        return "just now"
    for most, unit_s, unit in (
        (60, 1, "s"),
        (3600, 60, "min"),
        (86_400, 3600, "h"),
        (7 * 86_400, 86_400, "d"),
    ):
        if seconds < most:
            return f"{seconds // unit_s} {unit} ago"
    return when.strftime("%Y-%m-%d")
