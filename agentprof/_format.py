"""Numbers as a person reads them: durations, money, counts. Unknown is "unknown" or "–", never 0."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

UNKNOWN = "\N{EN DASH}"


def duration(ns: int | float | None) -> str:
    """A time with three digits and its unit: `812 ns`, `41.2 ms`, `1.25 s`, `3m 05s`, `2h 07m`."""
    if ns is None:
        return UNKNOWN
    if ns == 0:
        return "0"
    if abs(ns) < 1000:
        return f"{ns:.0f} ns"
    if abs(ns) < 999_500:
        return f"{_digits(ns / 1e3)} µs"
    if abs(ns) < 999_500_000:
        return f"{_digits(ns / 1e6)} ms"
    if abs(ns) < 59_950_000_000:
        return f"{_digits(ns / 1e9)} s"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}h {minutes:02d}m"


def _digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def money(amount: Decimal | str | None) -> str:
    """Dollars with at least two decimals, and below a dollar with three significant digits."""
    if amount is None:
        return "unknown"
    exact = Decimal(amount)
    if exact == 0:
        return "$0"
    sign = "-" if exact < 0 else ""
    decimals = 2 if abs(exact) >= 1 else 2 - exact.adjusted()
    rounded = abs(exact).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_EVEN)
    return f"{sign}${rounded:,f}"


def count(number: int | None) -> str:
    """A whole number with separators."""
    return UNKNOWN if number is None else f"{number:,}"


def short_count(number: int | None) -> str:
    """A number of tokens in a narrow column: `812`, `12.3k`, `4.56M`."""
    if number is None:
        return UNKNOWN
    if number < 10_000:
        return f"{number}"
    if number < 999_500:
        return f"{_digits(number / 1e3)}k"
    return f"{_digits(number / 1e6)}M"


def share(part: int | float, whole: int | float | None) -> str:
    """A part of a whole in percent, without pretending that a small one is none."""
    if not whole:
        return UNKNOWN
    percent = 100 * part / whole
    if 0 < percent <= 0.5:
        return "<1%"
    return f"{percent:.0f}%"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def short_ids(task_ids: Sequence[str]) -> list[str]:
    """Beginnings of ids that tell these tasks apart, for a column; ids of up to 16 characters whole."""
    size = 8
    while size < max(map(len, task_ids), default=0) and len({_begin(i, size) for i in task_ids}) < len(
        set(task_ids)
    ):
        size += 1
    return [_begin(task_id, size) for task_id in task_ids]


def _begin(task_id: str, size: int) -> str:
    if len(task_id) <= 16:
        return task_id
    return task_id[: size + len("trace:")] if task_id.startswith("trace:") else task_id[:size]
