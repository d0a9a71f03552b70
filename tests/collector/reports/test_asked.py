from datetime import UTC, datetime

import pytest

from agentprof_collector.reports import asked

NOW = 1_796_000_000_123_456_789
HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1790000000000000000", 1_790_000_000_000_000_000),
        ("0", 0),
        ("90m", NOW - 90 * 60 * 1_000_000_000),
        ("24h", NOW - 24 * HOUR),
        ("7d", NOW - 168 * HOUR),
        ("2w", NOW - 336 * HOUR),
        ("999999w", 0),
        ("2026-11-30", 1_796_000_000_000_000_000 - 1_796_000_000_000_000_000 % (24 * HOUR)),
        ("2026-11-30T12:00:00Z", int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * 1_000_000_000),
        ("2026-11-30T12:00:00.000001", 1_796_040_000_000_001_000),
        ("2026-11-30T13:00:00+01:00", 1_796_040_000_000_000_000),
        ("1969-01-01", 0),
        ("2262-04-12", 2**63 - 1),
        ("9999-12-31T23:59:59Z", 2**63 - 1),
    ],
)
def test_a_moment(text: str, expected: int) -> None:
    """As a number, a date and time, or a time before now."""
    assert asked.moment_ns(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "1790000000000000001",
        "1970-01-01T00:00:00.000001",
        "1970-01-12T13:46:39.999999",
        "1970-01-13",
        "9999-01-01",
    ],
)
def test_a_moment_is_read_as_it_was_written(text: str) -> None:
    """What one program understood another understands the same."""
    at_ns = asked.moment_ns(text, NOW)
    assert asked.moment_ns(asked.moment_text(at_ns), NOW) == at_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "-1",
        "1.5h",
        "20261130",
        "1790000000",
        "9" * 19,
        "9" * 40,
        "\u0663h",
        "2026-13-01",
        "1e9",
    ],
)
def test_what_is_no_moment(text: str) -> None:
    """Is refused with examples of what is."""
    with pytest.raises(ValueError, match="expected a time back from now as 90m, 24h or 7d, a date"):
        asked.moment_ns(text, NOW)


@pytest.mark.parametrize(
    ("text", "expected"), [("a=b", ("a", "b")), ("a==b", ("a", "=b")), ("a=", ("a", ""))]
)
def test_a_label(text: str, expected: tuple[str, str]) -> None:
    """Everything after the first "=" is the value."""
    assert asked.label(text) == expected


@pytest.mark.parametrize("text", ["", "a", "=", "=b"])
def test_what_is_no_label(text: str) -> None:
    """A value needs a key."""
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        asked.label(text)


def test_groups_and_cursors() -> None:
    """Only what divides tasks, and what a page gave."""
    assert [asked.group_by(text) for text in ("name", "outcome", "label.a.b")] == [
        "name",
        "outcome",
        "label.a.b",
    ]
    assert asked.cursor("12:a:b") == "12:a:b"
    for wrong in ("", "names", "label.", "label"):
        with pytest.raises(ValueError, match=r"expected name, outcome or label\.KEY"):
            asked.group_by(wrong)
    for wrong in ("", "12", "x:y"):
        with pytest.raises(ValueError, match="expected the value of next"):
            asked.cursor(wrong)
