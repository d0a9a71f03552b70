from decimal import Decimal

import pytest

from agentprof import _format as fmt


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (41_234_567, "41.2 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.00 s"),
        (9_994_000_000, "9.99 s"),
        (9_996_000_000, "10.0 s"),
        (59_949_000_000, "59.9 s"),
        (59_950_000_000, "1m 00s"),
        (185_000_000_000, "3m 05s"),
        (7_620_000_000_000, "2h 07m"),
        (360_000_000_000_000, "100h 00m"),
        (-1_500_000, "-1.50 ms"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    """Three digits and a unit, and no rounding up into the next unit's size."""
    assert fmt.duration(ns) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        ("0", "$0"),
        ("0.0", "$0"),
        ("1234.565", "$1,234.56"),
        ("1", "$1.00"),
        ("0.12345", "$0.123"),
        ("0.0000488", "$0.0000488"),
        ("0.00002010", "$0.0000201"),
        ("1E-9", "$0.00000000100"),
        ("0.9999", "$1.000"),
        (Decimal("-0.5"), "-$0.500"),
    ],
)
def test_money(amount: Decimal | str | None, text: str) -> None:
    """Exact decimals rounded once; unknown is a word, not a zero."""
    assert fmt.money(amount) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0"),
        (9_999, "9999"),
        (12_345, "12.3k"),
        (999_499, "999k"),
        (4_560_000, "4.56M"),
    ],
)
def test_short_counts(number: int | None, text: str) -> None:
    """Four digits in full, then three with a unit."""
    assert fmt.short_count(number) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 5, "0%"),
        (1, 1000, "<1%"),
        (5, 1000, "<1%"),
        (6, 1000, "1%"),
        (5, 5, "100%"),
        (1, 0, "\N{EN DASH}"),
    ],
)
def test_shares(part: int, whole: int, text: str) -> None:
    """A small part is no zero, and a part of nothing is unknown."""
    assert fmt.share(part, whole) == text


def test_counts_and_ids() -> None:
    """Plurals, separators, and the beginning of an id with its rule kept."""
    assert [fmt.plural(1, "retry", "retries"), fmt.plural(1200, "retry", "retries")] == [
        "1 retry",
        "1,200 retries",
    ]
    assert (fmt.count(1234567), fmt.count(None)) == ("1,234,567", "\N{EN DASH}")


def test_short_ids_tell_tasks_apart() -> None:
    """Eight characters where they do, more where they must; short ids and the rule before an id stay whole."""
    one, two = "0123456789abcdef0", "0123456789abcdef1"
    assert fmt.short_ids([one]) == ["01234567"]
    assert fmt.short_ids([one, two]) == [one, two]
    assert fmt.short_ids([one, one]) == ["01234567"] * 2
    assert fmt.short_ids(["ticket-1001", "ticket-1002"]) == ["ticket-1001", "ticket-1002"]
    assert fmt.short_ids(["trace:0123456789abcdef", one]) == ["trace:01234567", "01234567"]
    assert fmt.short_ids([]) == []
