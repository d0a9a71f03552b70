"""Parts of many tasks add up to what the tasks say, to the last digit."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from support.raw import T0, call_span, task_span
from support.serving import OfStore

from agentprof_collector.reports import REPORTS
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import open_store

COSTS = ("900000000000.000000000000000001", "0.000000000000000004", "12", "0.10")


@pytest.mark.parametrize("digits", [28, 6])
def test_costs_add_up_exactly(digits: int) -> None:
    """Whatever the decimal context of the program that asks; groups and parts say the same."""
    with open_store(None) as store, decimal.localcontext(prec=digits):
        OfStore(store).feed(
            [
                span
                for number, cost in enumerate(COSTS, 1)
                for span in (
                    task_span(f"{number:032x}", f"t{number}", start=T0),
                    call_span(f"{number:032x}", f"t{number}", "c", at=1, **{"agentprof.cost.usd": cost}),
                )
            ]
        )
        (row,) = REPORTS["parts"].document(store, Selection(by="model"))["rows"]
        (group,) = REPORTS["tasks"].document(store, Selection())["groups"]
    whole = "900000000012.100000000000000005"
    assert (row["cost_usd"], row["tasks"], row["cost_complete"]) == (whole, 4, True)
    assert Decimal(group["total_cost_usd"]) == Decimal(whole)
