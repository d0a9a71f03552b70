"""Reading, exact arithmetic and printing of amounts, whatever decimal context the program has set."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

EXACT = Context(prec=100)
"""For `decimal.localcontext`, or for its own methods: a program may have set its context to a few digits."""

_MOST_USD: Final = 10**12
_PLACES: Final = 18
_LONGEST: Final = 60
_ZERO: Final = Decimal(0)


def billed(written: object) -> Decimal | None:
    """An amount in US dollars as somebody wrote it, with its digits; a float has those it prints with.

    None for what no bill can hold: no number, below zero, or so large, small or long that its plain digits could
    fill the memory.
    """
    try:
        text = str(written).strip()
        amount = Decimal(text) if len(text) <= _LONGEST else None
    except (InvalidOperation, ValueError):  # no number, or an int that is too long to be written
        return None
    if amount is None or not amount.is_finite() or not 0 <= amount <= _MOST_USD:
        return None
    if not amount:
        return (
            amount if amount.as_tuple().exponent in range(-_PLACES, 1) and not amount.is_signed() else _ZERO
        )
    return amount if amount.adjusted() >= -_PLACES else None


def plain(amount: Decimal) -> str:
    """An amount in digits without an exponent, as JSON and CSV show it."""
    return format(amount, "f")


def with_plain_amounts(value: Any) -> Any:
    """The same lists and dicts with every Decimal as a plain string."""
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, dict):
        return {key: with_plain_amounts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_plain_amounts(item) for item in value]
    return value
