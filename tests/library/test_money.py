"""Amounts as they are read: with the digits they were written with, and none that no bill can hold."""

from decimal import Decimal

import pytest

from agentprof.dialects._openai_usage import dollars
from agentprof.money import billed, plain


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("0.0100", "0.0100"),
        (0.1, "0.1"),
        (Decimal("1E-7"), "0.0000001"),
        (10**12, "1000000000000"),
        ("1e-18", "0.000000000000000001"),
        ("0.000", "0.000"),
        # a zero has the digits of a bill at most
        ("0e-999999999", "0"),
        ("0e999999999", "0"),
        ("-0", "0"),
    ],
)
def test_an_amount_keeps_its_digits(written: object, printed: str) -> None:
    """Printed in plain digits, however it was written."""
    found = billed(written)
    assert found is not None
    assert plain(found) == printed


@pytest.mark.parametrize(
    "written",
    [
        "1e-999999999",
        "1e-19",
        "1e12000",
        10**13,
        "9" * 61,
        pytest.param("0." + "3" * 100_000, id="long text"),
        pytest.param(10**5000, id="long int"),
        "-0.01",
        "NaN",
        "sNaN",
        "Infinity",
        "free",
        "",
        True,
        [1],
        float("nan"),
    ],
)
def test_what_no_bill_can_hold_is_no_amount(written: object) -> None:
    """Least of all one whose plain digits fill the memory."""
    assert billed(written) is None


@pytest.mark.parametrize(
    ("raw", "usd"),
    [
        (b"0.000123", Decimal("0.000123")),
        (b'{"total_cost": 0.5}', Decimal("0.5")),
        (b"1e-999999999", None),
        (b'{"total_cost": 1e-999999999}', None),
        (b'{"total_cost": "0e-999999999"}', Decimal(0)),
        (b"-1", None),
        (b"null", None),
        (b"\xff", None),
    ],
)
def test_what_a_provider_charges(raw: bytes, usd: Decimal | None) -> None:
    """The same of the bytes of an answer."""
    found = dollars(raw)
    assert found == usd
    assert found is None or len(plain(found)) < 100
