"""Estimated usage in a roll-up: it never stands beside or in place of what was reported."""

from __future__ import annotations

from decimal import Decimal

import pytest
from support.spans import TASK, call, cost, task

from agentprof.model import Usage
from agentprof.rollup import roll_up
from agentprof.rollup.calls import call_rows

REPORTED = Usage(input=100, output=6)
ESTIMATED = Usage(input=70, output=9, reasoning=1, estimated=True)


@pytest.mark.parametrize("response_id", ["r", None])
def test_another_instrumentation_reports(response_id: str | None) -> None:
    """Of one call that two saw the reported counts and their price hold, though ours come first."""
    ours = call(
        "a", 10, 90, "root", scope="agentprof", response_id=response_id, usage=ESTIMATED, cost=cost("7")
    )
    other = call("b", 10, 90, "root", scope="other", response_id=response_id, usage=REPORTED, cost=cost("2"))
    found = roll_up(TASK, [task("root", 0, 100), ours, other])
    assert found.calls == 1
    assert (found.tokens["input"], found.tokens["output"], found.tokens["reasoning"]) == (100, 6, None)
    assert found.cost_usd == Decimal(2)
    assert found.usage_estimated_calls == 0
    assert found.warnings == []


def test_reported_counts_without_a_price() -> None:
    """The price of an estimate is not theirs."""
    ours = call("a", 10, 90, "root", scope="agentprof", response_id="r", usage=ESTIMATED, cost=cost("7"))
    other = call("b", 10, 90, "root", scope="other", response_id="r", usage=REPORTED)
    found = roll_up(TASK, [task("root", 0, 100), ours, other])
    assert found.cost_usd is None
    assert found.cost_complete is False
    assert found.unpriced["unknown_model"] == 1


def test_what_is_estimated_is_counted() -> None:
    """With a warning; of a stream left early the provider may bill more."""
    whole = call("a", 10, 40, "root", usage=ESTIMATED, cost=cost("7"), stream_end="complete")
    left = call("b", 50, 90, "root", usage=ESTIMATED, cost=cost("7"), stream_end="abandoned")
    found = roll_up(TASK, [task("root", 0, 100), whole, left])
    assert (found.calls, found.calls_without_usage, found.usage_estimated_calls) == (2, 0, 2)
    assert found.cost_usd == 14
    assert found.unpriced["abandoned_attempts"] == 1
    assert [(warning.code, warning.count) for warning in found.warnings] == [("usage_estimated", 2)]
    assert [row.usage_estimated for row in call_rows(TASK, [task("root", 0, 100), whole])] == [True]


def test_rows_of_calls_tell_batches_apart() -> None:
    """By their tier: a call without a length is none that was fast."""
    at_once = call("a", 10, 40, "root", usage=REPORTED)
    of_batch = call("b", 50, 50, "root", usage=REPORTED, service_tier="batch")
    rows = call_rows(TASK, [task("root", 0, 100), at_once, of_batch])
    assert [(row.service_tier, row.duration_ns, row.usage_estimated) for row in rows] == [
        (None, 30, False),
        ("batch", 0, False),
    ]
