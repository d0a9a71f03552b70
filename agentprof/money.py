"""Exact arithmetic and printing of amounts, whatever decimal context the program has set."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

EXACT = Context(prec=100)
"""For `decimal.localcontext`, or for its own methods: a program may have set its context to a few digits."""


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
