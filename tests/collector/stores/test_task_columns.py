from decimal import Decimal

import msgspec
import pytest
from support.spans import call, cost, task, usage

from agentprof.money import EXACT
from agentprof.rollup import roll_up
from agentprof.summary import TaskSummary
from agentprof_collector.stores.task_columns import AMOUNTS, KNOWN_SUMS, SUMS, amount_of, figures


def summary(amount: str = "0.010") -> TaskSummary:
    """A task with one priced call."""
    spans = [task("root", 0, 10), call("c", 1, 9, "root", usage=usage(7, None), cost=cost(amount))]
    return roll_up("t", spans)


def test_columns_hold_what_adding_up_makes() -> None:
    """Every part of a summary that groups add up has its column, so that none is added up the slow way."""
    of_task = summary()
    columns = figures([of_task, of_task])
    assert columns["exact"] == [True, True]
    assert columns.keys() == {
        *("wall_ns", "exact", *SUMS, *KNOWN_SUMS, *AMOUNTS),
        *(f"{name}_places" for name in AMOUNTS),
    }
    assert (columns["wall_ns"][0], columns["model_ns"][0], columns["other_ns"][0]) == (10, 8, 2)
    assert (columns["input_tokens"][0], columns["output_tokens"][0]) == (7, None)
    assert (columns["cost_usd"][0], columns["cost_usd_places"][0]) == ("0.010", 3)


@pytest.mark.parametrize("text", ["0", "0.10", "1E+2", "7.50E-7", "999999999999.999999999999999999"])
def test_an_amount_comes_back_as_it_was_written(text: str) -> None:
    """From a column with 18 digits after the point."""
    columns = figures([summary(text)])
    (kept,), (places,) = columns["cost_usd"], columns["cost_usd_places"]
    in_column = Decimal(kept).quantize(Decimal("1e-18"), context=EXACT)
    assert str(amount_of(in_column, places)) == str(summary(text).cost_usd)
    assert amount_of(None, None) is None


@pytest.mark.parametrize("text", ["1E-19", "1E+12", "-0.0", "0.1234567890123456789", "1E+40"])
def test_an_amount_that_does_not_fit_is_said_to(text: str) -> None:
    """Its row gives no figures of its own."""
    columns = figures([msgspec.structs.replace(summary(), cost_usd=Decimal(text))])
    assert (columns["exact"], columns["cost_usd"], columns["calls"]) == ([False], [None], [0])


def test_a_reason_nobody_knew_is_not_left_out() -> None:
    """A row with another set of reasons does not fit either."""
    other = msgspec.structs.replace(summary(), unpriced={"no_usage": 0, "weather": 2})
    assert figures([other])["exact"] == [False]
