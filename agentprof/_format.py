"""Numbers and texts as a person reads them. Unknown is "unknown" or "–", never 0.

Everything here takes whatever comes: what a program or a file says is shown, and can neither draw on the
terminal nor stop a table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from functools import partial
from typing import Any
from unicodedata import category, combining, east_asian_width

from agentprof.money import EXACT

UNKNOWN = "\N{EN DASH}"

_SMALLEST = Decimal("0.000001")
_LARGEST = Decimal("1e12")


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
    """Dollars with at least two decimals, and below a dollar with three significant digits.

    At most 20 characters: a millionth of a dollar is the smallest amount shown, a trillion the largest
    written out.
    """
    exact = _exact(amount)
    if exact is None:
        return "unknown"
    if exact == 0:
        return "$0"
    sign, size = ("-" if exact < 0 else ""), exact.copy_abs()
    if size < _SMALLEST:
        return f"> -${_SMALLEST}" if sign else f"< ${_SMALLEST}"
    if size >= _LARGEST:
        return f"{sign}${size:.2e}"
    decimals = 2 if size >= 1 else 2 - size.adjusted()
    step = Decimal((0, (1,), -decimals))
    return f"{sign}${size.quantize(step, rounding=ROUND_HALF_EVEN, context=EXACT):,f}"


def at_least(amount: Decimal | str | None) -> str:
    """An amount from which something is missing."""
    exact = _exact(amount)
    if exact is not None and 0 < exact < _SMALLEST:
        return "> $0"
    return "unknown" if exact is None else f"≥ {money(amount)}"


def _exact(amount: Decimal | str | None) -> Decimal | None:
    if amount is None:
        return None
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        return None
    return exact if exact.is_finite() else None


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


def energy(bounds: Mapping[str, float] | None, *, partial: bool = False) -> str:
    """Joules with three digits and their unit, as an interval: `12.3 J to 1.45 kJ`; "≥" where some is missing."""
    if bounds is None:
        return UNKNOWN
    low, high = _joules(bounds["low"]), _joules(bounds["high"])
    sign = "≥ " if partial else ""
    return f"{sign}{low}" if low == high else f"{sign}{low} to {high}"


def _joules(value: float) -> str:
    if value == 0:
        return "0 J"
    for size, unit in ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")):
        if value >= 0.9995 * size:
            return f"{_digits(value / size)} {unit}"
    return f"{_digits(value * 1e6)} µJ"


def rate(tokens_per_s: float | None) -> str:
    """Tokens per second: `45.2/s`, `3,210/s`."""
    if tokens_per_s is None:
        return UNKNOWN
    return f"{tokens_per_s:,.0f}/s" if tokens_per_s >= 99.95 else f"{_digits(tokens_per_s)}/s"


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


# --- Texts ---------------------------------------------------------------------------------------

# Controls, invisible and direction marks, line and paragraph separators, halves of surrogate pairs.
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = re.compile(r"[ -~]*")


def printable(text: str) -> str:
    """The text with everything that acts on a terminal, or hides in a line, written out: `\\x1b`, `\\u202e`."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_written(char) if category(char) in _UNPRINTABLE else char for char in text)


def _written(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return _NAMED.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable_document(value: Any) -> Any:
    """The same lists and dicts with every text in them, keys too, as `printable` has it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(key): printable_document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_document(item) for item in value]
    return value


def cells(text: str) -> int:
    """Columns of a terminal that a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if combining(char) or category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns; one that is cut ends in "…"."""
    if cells(text) <= width:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _cells(char)
        if taken >= width:
            return text[:at] + "…"
    return text


def padded(text: str, width: int) -> str:
    """The text with spaces up to `width` columns."""
    return text + " " * (width - cells(text))


# --- Ids -----------------------------------------------------------------------------------------

_WHOLE = 16
_BEGIN = 8
_RULE = "trace:"


def short_ids(task_ids: Sequence[str]) -> list[str]:
    """Ids that tell these tasks apart, for a column; those of up to 16 characters whole.

    The first eight characters where they do; else a few more, or beginning and end with "…" between.
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for task_id in task_ids:
        alike[_begin(task_id, _BEGIN)].add(task_id)
    short: dict[str, str] = {}
    for group in alike.values():
        for form in _forms(group):
            short |= {task_id: form(task_id) for task_id in group}
            if len({short[task_id] for task_id in group}) == len(group):
                break
    return [short[task_id] for task_id in task_ids]


def _forms(group: set[str]) -> Iterator[Callable[[str], str]]:
    """Ways to shorten ids that begin alike, the best first."""
    for size in range(_BEGIN, 13):
        yield partial(_begin, size=size)
    for size in range(6, 13):
        yield partial(_ends, size=size)
    yield partial(_middle, at=_common(min(group), max(group)))


def _common(first: str, last: str) -> int:
    """How many characters the two have in common at their beginnings."""
    return next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), 0)


def _begin(task_id: str, size: int) -> str:
    if len(task_id) <= _WHOLE:
        return task_id
    return task_id[: size + len(_RULE)] if task_id.startswith(_RULE) else task_id[:size]


def _ends(task_id: str, size: int) -> str:
    if len(task_id) <= _WHOLE:
        return task_id
    begin = _RULE if task_id.startswith(_RULE) else task_id[:_BEGIN]
    return f"{begin}…{task_id[-size:]}"


def _middle(task_id: str, at: int) -> str:
    return f"{task_id[:_BEGIN]}…{task_id[at : at + 12]}…"
