"""What calls cost that failed, or some of whose attempts did."""

from __future__ import annotations

from decimal import Decimal

import pytest
from support.priced_calls import a_call, cost

from agentprof.model import Cost, Usage


@pytest.mark.parametrize(
    ("failed", "error_type"),
    [
        (("400",), None),
        (("429", "429", "429"), "RateLimitError"),
        ((), "400"),
        ((), "openai.RateLimitError"),
        ((), "BadRequestError"),
    ],
)
def test_a_refused_call_costs_nothing(failed: tuple[str, ...], error_type: str | None) -> None:
    """4xx answers are not billed: 0, with nothing missing."""
    span = a_call(failed=failed, error=True, error_type=error_type)
    assert cost(span) == Cost(amount_usd=Decimal(0))


def test_a_refused_attempt_before_an_answer_changes_nothing() -> None:
    """A 429 and then an answer cost the answer."""
    assert cost(a_call(Usage(input=1000, output=0), failed=("429",))).amount_usd == Decimal("0.00015")


@pytest.mark.parametrize("failed", [("timeout",), ("429", "timeout"), ("cut", "cancelled")])
def test_abandoned_attempts_are_neither_free_nor_counted_a_second_time(failed: tuple[str, ...]) -> None:
    """What was given up may be billed: no amount, and no reason beside the attempts themselves."""
    assert cost(a_call(failed=failed, error=True, error_type="APITimeoutError")) == Cost()


@pytest.mark.parametrize(
    ("failed", "error_type", "error"),
    [
        (("500",), "500", True),
        (("429", "502"), None, True),
        (("499",), None, True),
        ((), "APITimeoutError", True),
        ((), None, True),
        (("429",), None, False),
    ],
)
def test_other_failures_without_usage_are_not_known(
    failed: tuple[str, ...], error_type: str | None, error: bool
) -> None:
    """A server's error, an unnamed one, or an answer without usage is never taken for free."""
    assert cost(a_call(failed=failed, error=error, error_type=error_type)) == Cost(unpriced=("no_usage",))
