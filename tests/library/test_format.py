import decimal
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("0.000001", "$0.00000100"),
        ("1E-9", "< $0.000001"),
        ("1e-300", "< $0.000001"),
        ("1e-50000000", "< $0.000001"),
        ("-1e-9", "> -$0.000001"),
        ("999999999999", "$999,999,999,999.00"),
        ("1e12", "$1.00e+12"),
        ("-1.236e50000000", "-$1.24e+50000000"),
        ("NaN", "unknown"),
        ("sNaN", "unknown"),
        ("-Infinity", "unknown"),
        ("much", "unknown"),
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


@given(st.decimals(allow_nan=True, allow_infinity=True))
def test_every_amount_can_be_shown(amount: Decimal) -> None:
    """In a bounded width, also in a program that computes with two digits."""
    shown = fmt.money(amount)
    with decimal.localcontext(decimal.Context(prec=2, traps=[decimal.Inexact, decimal.Overflow])):
        assert fmt.money(amount) == shown
        assert len(fmt.at_least(amount)) <= 24
    assert len(shown) <= 24


def test_bounds() -> None:
    """What something is missing from is a lower bound; a bound too small to show is more than nothing."""
    assert [fmt.at_least(amount) for amount in ("0.5", "0", "1e-9", None)] == [
        "≥ $0.500",
        "≥ $0",
        "> $0",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/]", "plain [bold]text[/]"),
        ("日本 é 🙂", "日本 é 🙂"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("two\r\nlines\tand a tab", "two\\r\\nlines\\tand a tab"),
        ("\x7f\x9b31m\x00", "\\x7f\\x9b31m\\x00"),
        ("a\u202eb\u2066c\u200bd\ufeff", "a\\u202eb\\u2066c\\u200bd\\ufeff"),
        ("\u2028\ud800\U000e0041", "\\u2028\\ud800\\U000e0041"),
    ],
)
def test_what_acts_on_a_terminal_is_written_out(text: str, shown: str) -> None:
    """Escape sequences, new lines, marks of direction and invisible characters; nothing else."""
    assert fmt.printable(text) == shown


@given(st.text(st.characters()))
def test_printable_texts_have_no_controls(text: str) -> None:
    """Whatever the text; and a printable text stays as it is."""
    shown = fmt.printable(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert fmt.printable(shown) == shown


def test_documents_become_printable_whole() -> None:
    """Keys, lists and nested texts; numbers and unknowns stay what they are."""
    found = fmt.printable_document({"a\n": ["\x1b", 1, None, {"b": "\x07"}], "c": 2.5})
    assert found == {"a\\n": ["\\x1b", 1, None, {"b": "\\x07"}], "c": 2.5}


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
    ],
)
def test_cutting_counts_columns(text: str, width: int, shown: str) -> None:
    """Wide characters take two columns, accents none."""
    assert fmt.cut(text, width) == shown
    assert fmt.cells(shown) <= width
    assert fmt.cells(fmt.padded(shown, 10)) == 10


def test_short_ids_tell_tasks_apart() -> None:
    """Eight characters where they do, more where they must; short ids and the rule before an id stay whole."""
    one, two = "0123456789abcdef0", "0123456789abcdef1"
    assert fmt.short_ids([one]) == ["01234567"]
    assert fmt.short_ids([one, two]) == ["01234567…bcdef0", "01234567…bcdef1"]
    assert fmt.short_ids([one, one]) == ["01234567"] * 2
    assert fmt.short_ids(["0123456789x" + "0" * 9, one]) == ["0123456789x", "0123456789a"]
    assert fmt.short_ids(["ticket-1001", "ticket-1002"]) == ["ticket-1001", "ticket-1002"]
    assert fmt.short_ids(["trace:0123456789abcdef", one]) == ["trace:01234567", "01234567"]
    assert fmt.short_ids([f"agent-{name}-{n:08d}" for name in ("alpha", "beta") for n in (1, 2)]) == [
        "agent-al…000001",
        "agent-al…000002",
        "agent-be…000001",
        "agent-be…000002",
    ]
    assert fmt.short_ids([]) == []


@given(st.data())
def test_ids_with_common_beginnings_and_ends(data: st.DataObject) -> None:
    """Counters at the end, in the middle or after zeros tell apart in a column of bounded width."""
    before = data.draw(
        st.sampled_from(["", "trace:", "support-ticket-2026-11-30-acme-corp-", "trace:" + "0" * 26])
    )
    after = data.draw(st.sampled_from(["", "-answer-of-a-long-name"]))
    numbers = data.draw(st.lists(st.integers(0, 999_999), unique=True, min_size=1, max_size=30))
    ids = [f"{before}{number:06d}{after}" for number in numbers]
    short = fmt.short_ids(ids)
    assert len(set(short)) == len(ids)
    assert max(map(len, short)) <= 24


def test_many_ids_are_shortened_in_time_for_a_table() -> None:
    """100,000 ids that begin alike."""
    ids = [f"support-ticket-2026-11-30-acme-corp-{number:06d}" for number in range(100_000)]
    assert len(set(fmt.short_ids(ids))) == len(ids)
