"""What lists, filters and groups need of a summary, as columns; every store keeps these beside the summary.

Columns are numbers as they are, so that sums are exact. Amounts are kept with `AMOUNT_PLACES` digits after the
point, beside how many digits they were written with; a row with an amount or a number that does not fit says
so, and groups with such a row are added up from the summaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from agentprof.money import EXACT
from agentprof.rollup.energy import microjoules
from agentprof.summary import TIMELINE, TOKENS, TaskSummary

AMOUNT_PLACES: Final = 18
_AMOUNT_LIMIT: Final = Decimal(10) ** 12
"""So far below what a column holds that the sum of a hundred million of them fits."""
_LARGEST: Final = 2**63 - 1

UNPRICED: Final = ("no_usage", "unknown_model", "abandoned_attempts", "unknown_server_tool")
_UNPRICED: Final = set(UNPRICED)
ERRORS: Final = ("call", "tool", "task")

SUMS: Final = (
    *(f"{part}_ns" for part in TIMELINE),
    "calls",
    *(f"{what}_errors" for what in ERRORS),
    *(f"unpriced_{reason}" for reason in UNPRICED),
)
"""Columns of numbers that every row has."""

KNOWN_SUMS: Final = (
    "attempts",
    "transport_retries",
    *(f"{name}_tokens" for name in TOKENS),
    "energy_low_uj",
    "energy_high_uj",
    "calls_without_energy",
)
"""Columns of numbers that may be unknown."""

AMOUNTS: Final = ("cost_usd", "wasted_usd")
"""Columns of amounts that may be unknown, each beside one with `_places` after its name."""


def numbers(summary: TaskSummary) -> dict[str, int | None]:
    """The columns `wall_ns`, `SUMS` and `KNOWN_SUMS` of a summary."""
    low_uj, high_uj = (None, None) if summary.energy_j is None else microjoules(summary.energy_j)
    return {
        "wall_ns": summary.wall_ns,
        **{f"{part}_ns": summary.timeline_ns.get(part, 0) for part in TIMELINE},
        "calls": summary.calls,
        **{f"{what}_errors": summary.errors.get(what, 0) for what in ERRORS},
        **{f"unpriced_{reason}": summary.unpriced.get(reason, 0) for reason in UNPRICED},
        "attempts": summary.attempts,
        "transport_retries": summary.retries["transport"],
        **{f"{name}_tokens": summary.tokens.get(name) for name in TOKENS},
        "energy_low_uj": low_uj,
        "energy_high_uj": high_uj,
        "calls_without_energy": summary.calls_without_energy,
    }


def amounts(summary: TaskSummary) -> dict[str, Decimal | None]:
    """The columns `AMOUNTS` of a summary."""
    return {"cost_usd": summary.cost_usd, "wasted_usd": summary.wasted["cost_usd"]}


def figures(summaries: Sequence[TaskSummary]) -> dict[str, list[Any]]:
    """The columns of figures of all rows: numbers, amounts as text with their places, and `exact`.

    Figures of a row that is not `exact` are no figures of its summary.
    """
    counts: list[dict[str, int | None]] = []
    found: dict[str, list[Any]] = {"exact": [], **{name: [] for name in AMOUNTS}}
    found |= {f"{name}_places": [] for name in AMOUNTS}
    for summary in summaries:
        counted, paid = numbers(summary), amounts(summary)
        known = [value for value in counted.values() if value is not None]
        exact = (
            min(known) >= -_LARGEST
            and max(known) <= _LARGEST
            and all(amount is None or _amount_fits(amount) for amount in paid.values())
            and summary.unpriced.keys() == _UNPRICED
        )
        found["exact"].append(exact)
        if not exact:
            counted = {name: value if value is None else 0 for name, value in counted.items()}
        counts.append(counted)
        for name, amount in paid.items():
            shown = amount if exact else None
            found[name].append(None if shown is None else format(shown, "f"))
            found[f"{name}_places"].append(None if shown is None else _places(shown))
    return found | {name: [row[name] for row in counts] for name in ("wall_ns", *SUMS, *KNOWN_SUMS)}


def amount_of(value: Decimal | None, places: int | None) -> Decimal | None:
    """An amount as it was written, from a column of amounts and one of places."""
    return (
        None
        if value is None or places is None
        else value.quantize(Decimal((0, (1,), -places)), context=EXACT)
    )


def _amount_fits(amount: Decimal) -> bool:
    return (
        amount.is_finite()
        and -_AMOUNT_LIMIT < amount < _AMOUNT_LIMIT
        and -AMOUNT_PLACES <= _places(amount) <= AMOUNT_PLACES
        and not (amount.is_signed() and amount.is_zero())
    )


def _places(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 2 * AMOUNT_PLACES
