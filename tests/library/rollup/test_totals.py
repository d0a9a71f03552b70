"""Cost and what is missing from it, retries, waste, quantiles, rows."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import pytest
from support.spans import TASK, call, cost, failed, observed, step, task, tool, usage

from agentprof.model import Facts, OutcomeFact, Span, TaskMark
from agentprof.rollup import roll_up
from agentprof.rollup.calls import call_rows
from agentprof.rollup.rows import DEPTH_LIMIT
from agentprof.summary import TaskSummary

ROOT = task("root", 0, 1000, labels={"customer": "acme"}, outcome="success")


def rolled(*spans: Span) -> TaskSummary:
    """The summary of a task of these spans."""
    return roll_up(TASK, [ROOT, *spans])


def test_cost_says_what_is_missing() -> None:
    """The known part, and every reason counted apart."""
    summary = rolled(
        call("a", 0, 10, "root", usage=usage(1, 1), cost=cost("0.1")),
        call("b", 0, 10, "root", cost=cost(None, "no_usage")),
        call("c", 0, 10, "root", usage=usage(1, 1), cost=cost(None, "unknown_model")),
        call("d", 0, 10, "root", usage=usage(1, 1), cost=cost("0.2", "unknown_server_tool")),
        tool("x", 0, 10, "root", cost=cost("0.3")),
    )
    assert summary.cost_usd == Decimal("0.6")
    assert summary.tool_cost_usd == Decimal("0.3")
    assert summary.cost_complete is False
    assert summary.unpriced == {
        "no_usage": 1,
        "unknown_model": 1,
        "abandoned_attempts": 0,
        "unknown_server_tool": 1,
    }


def test_a_timed_out_attempt_is_counted_apart_and_a_refused_one_is_not() -> None:
    """The provider may bill what was abandoned; a refusal costs nothing."""
    summary = rolled(
        call(
            "a",
            0,
            100,
            "root",
            usage=usage(1, 1),
            cost=cost("0.1"),
            attempts=4,
            failed_attempts=(failed(10, 5, "429"), failed(20, 5, "timeout"), failed(5, 5, "connection")),
        )
    )
    assert summary.unpriced["abandoned_attempts"] == 1
    assert summary.cost_complete is False
    assert (summary.retries["transport"], summary.attempts) == (3, 4)
    assert summary.wasted["time_ns"] == 50


def test_a_stream_left_without_usage_is_an_abandoned_attempt_not_a_lack_of_usage() -> None:
    """One reason, once."""
    summary = rolled(call("a", 0, 100, "root", stream_end="abandoned", cost=cost(None, "no_usage")))
    assert summary.unpriced["abandoned_attempts"] == 1
    assert summary.unpriced["no_usage"] == 0
    assert summary.wasted["time_ns"] == 100


def test_an_abandoned_stream_with_usage_is_waste() -> None:
    """Billed, and thrown away."""
    summary = rolled(call("a", 0, 100, "root", stream_end="cancelled", usage=usage(9, 2), cost=cost("0.5")))
    assert summary.wasted == {
        "cost_usd": Decimal("0.5"),
        "input_tokens": 9,
        "output_tokens": 2,
        "time_ns": 100,
    }


def test_a_task_without_calls_costs_nothing_and_one_without_prices_is_unknown() -> None:
    """0 is a fact, None is not."""
    assert (rolled().cost_usd, rolled().cost_complete) == (Decimal(0), True)
    unpriced = rolled(call("a", 0, 10, "root", usage=usage(1, 1)))
    assert (unpriced.cost_usd, unpriced.cost_complete) == (None, False)


def test_sums_are_exact_whatever_context_the_program_set() -> None:
    """Two digits of precision in the program lose nothing here."""
    with localcontext() as context:
        context.prec = 2
        summary = rolled(
            call("a", 0, 10, "root", cost=cost("0.123456789")), call("b", 0, 10, "root", cost=cost("1"))
        )
    assert summary.cost_usd == Decimal("1.123456789")
    assert summary.to_dict()["cost_usd"] == "1.123456789"


def test_small_amounts_are_printed_in_plain_digits() -> None:
    """No exponent in JSON."""
    assert rolled(call("a", 0, 10, "root", cost=cost("0.00000075"))).to_dict()["cost_usd"] == "0.00000075"


def test_the_outcome_recorded_last_holds() -> None:
    """Over what the task said itself; facts of other tasks are ignored."""
    facts = [
        OutcomeFact(task_id=TASK, outcome="success", recorded_ns=1),
        OutcomeFact(task_id=TASK, outcome="failure", score=0.25, recorded_ns=2),
        OutcomeFact(task_id="other", outcome="success", recorded_ns=3),
    ]
    summary = roll_up(TASK, [ROOT], Facts(outcomes=tuple(facts)))
    assert (summary.outcome, summary.score) == ("failure", 0.25)
    assert roll_up(TASK, [ROOT]).outcome == "success"
    assert roll_up(TASK, [task("root", 0, 10, error=True)]).outcome == "failure"


def test_missing_spans_are_known_from_the_count_on_the_task() -> None:
    """Fewer here than its process had ended: the task is not complete."""
    said = task("root", 0, 100, spans=2)
    one = call("a", 0, 10, "root", task=TaskMark(id=TASK))
    two = call("b", 0, 10, "root", task=TaskMark(id=TASK))
    assert roll_up(TASK, [said, one, two]).complete
    summary = roll_up(TASK, [said, one])
    assert not summary.complete
    assert [(w.code, w.count) for w in summary.warnings] == [("missing_spans", 1)]


def test_quantiles_are_values_that_occurred() -> None:
    """Nearest rank; no p99 under a hundred samples."""
    calls = [call(f"c{i}", 0, 500, "root", first_token_ns=i) for i in range(1, 11)]
    summary = rolled(*calls)
    assert summary.first_token_ns == {"p50": 5, "p95": 10, "p99": None, "max": 10}
    many = [call(f"c{i}", 0, 500, "root", first_token_ns=i) for i in range(1, 101)]
    assert rolled(*many).first_token_ns == {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def test_gaps_between_tokens_are_merged_from_histograms() -> None:
    """Buckets of all calls together, bounded by the longest gap seen."""
    summary = rolled(
        call("a", 0, 10, "root", inter_token_histogram={0: 3, 8: 1}, inter_token_max_ns=1_900_000),
        call("b", 0, 10, "root", inter_token_histogram={0: 4}, inter_token_max_ns=900_000),
    )
    assert summary.inter_token_ns == {"p50": 1_000_000, "p95": 1_900_000, "p99": None, "max": 1_900_000}


def test_rows_are_one_a_path_with_self_and_total() -> None:
    """Runs of the same path are one row; the task comes first, the most time next."""
    summary = rolled(
        step("plan", 0, 300, "root", title="plan"),
        call("a", 0, 100, "plan", model="big", usage=usage(10, 1), cost=cost("0.1")),
        call("b", 100, 200, "plan", model="big", usage=usage(20, 2), cost=cost("0.2"), error=True),
        tool("x", 300, 900, "root", title="search"),
    )
    rows = {tuple(row.path): row for row in summary.nodes}
    assert list(rows) == [("root",), ("root", "search"), ("root", "plan"), ("root", "plan", "big")]
    big, plan = rows["root", "plan", "big"], rows["root", "plan"]
    assert (big.runs, big.errors, big.self.calls, big.self.cost_usd) == (2, 1, 2, Decimal("0.3"))
    assert (plan.self.path_ns, plan.total.path_ns) == (100, 300)
    assert (plan.self.busy_ns, plan.total.busy_ns) == (300, 500)
    assert plan.total.tokens["input"] == 30


def test_busy_time_is_not_clipped_and_leaves_the_client_out() -> None:
    """Parallel calls add up."""
    summary = rolled(
        call("a", 0, 100, "root", first_token_ns=40, phases={"client": observed(10)}),
        call("b", 0, 100, "root", first_token_ns=40),
    )
    assert (summary.busy_ns["wait"], summary.busy_ns["generation"]) == (80, 110)


def test_output_rate_is_tokens_over_generation_time() -> None:
    """Of the calls that have both."""
    row = rolled(
        call("a", 0, 1000, "root", first_token_ns=500, usage=usage(1, 5)),
        call("b", 0, 9, "root", usage=usage(1, 99)),
    ).models["m"]
    assert row.output_tokens_per_s == 5 / 500e-9


def test_the_first_output_is_the_first_content_of_the_call_that_ended_last() -> None:
    """What the user waited for."""
    summary = rolled(
        call("a", 0, 100, "root", first_content_ns=50), call("b", 200, 900, "root", first_content_ns=300)
    )
    assert summary.first_output_ns == 500
    assert rolled(call("a", 0, 100, "root")).first_output_ns is None


def test_call_rows_say_where_the_time_went() -> None:
    """Path, phases that fill the call and their sources."""
    (row,) = call_rows(
        TASK, [ROOT, step("plan", 0, 300, "root"), call("a", 0, 100, "plan", first_token_ns=40)]
    )
    assert row.path == ["root", "plan", "m"]
    assert row.phases_ns == {"wait": 40, "generation": 60}
    assert row.phase_sources == {"wait": "observed", "generation": "observed"}


def test_call_rows_say_what_was_asked() -> None:
    """Sizes of its sections, tools offered, and what tells it from other questions."""
    known: dict[str, Any] = {"input_bytes": {"user": 7}, "tools_offered": 2, "fingerprint": "f"}
    first, second = call_rows(TASK, [ROOT, call("a", 0, 10, "root", **known), call("b", 20, 30, "root")])
    assert {name: getattr(first, name) for name in known} == known
    assert (second.input_bytes, second.tools_offered, second.fingerprint) == ({}, None, None)


def test_paths_of_rows_and_calls_end_at_the_depth_limit() -> None:
    """What is nested deeper counts in the last row, so that a chain of spans costs its length."""
    deep = 300
    spans = [ROOT, *[step(f"s{i}", 0, 1000, f"s{i - 1}" if i else "root") for i in range(deep)]]
    spans.append(call("c", 10, 20, f"s{deep - 1}", usage=usage(1, 2)))
    summary = roll_up(TASK, spans)
    assert max(len(row.path) for row in summary.nodes) == DEPTH_LIMIT
    assert sum(row.self.path_ns for row in summary.nodes) == summary.wall_ns
    assert summary.nodes[-1].self.calls == 1
    (row,) = call_rows(TASK, spans)
    assert row.path == summary.nodes[-1].path
    assert "deep_nesting" in {warning.code for warning in summary.warnings}


def test_rows_say_whether_their_cost_is_whole() -> None:
    """Of a call without a price: its row and those above; other rows do not lack anything."""
    found = roll_up(
        TASK,
        [
            task("root", 0, 100),
            step("a", 0, 50, "root"),
            call("c", 10, 20, "a", model="m1", cost=cost("1"), usage=usage(1, 1)),
            call("d", 20, 30, "a", model="m2", usage=usage(1, 1)),
            step("b", 50, 100, "root"),
            call("e", 60, 70, "b", model="m1", cost=cost("1"), usage=usage(1, 1)),
        ],
    )
    whole = {tuple(row.path): (row.self.cost_complete, row.total.cost_complete) for row in found.nodes}
    assert whole == {
        ("root",): (True, False),
        ("root", "a"): (True, False),
        ("root", "a", "m1"): (True, True),
        ("root", "a", "m2"): (False, False),
        ("root", "b"): (True, True),
        ("root", "b", "m1"): (True, True),
    }


@pytest.mark.parametrize("lacking", [{"spans": 5}, {"cut": 1}])
def test_a_task_that_lacks_spans_has_no_whole_cost(lacking: dict[str, int]) -> None:
    """What is not here may have cost something: without a call the cost is unknown, not 0."""
    empty = roll_up(TASK, [task("root", 0, 100, **lacking)])
    assert (empty.cost_usd, empty.cost_complete, empty.complete) == (None, False, False)
    assert empty.nodes[0].total.cost_complete is False
    some = roll_up(
        TASK, [task("root", 0, 100, **lacking), call("c", 0, 10, "root", cost=cost("1"), usage=usage(1, 1))]
    )
    assert (some.cost_usd, some.cost_complete) == (Decimal(1), False)
    assert [warning.code for warning in some.warnings] == [
        "missing_spans" if "spans" in lacking else "cut_short"
    ]
    assert roll_up(TASK, [task("root", 0, 100)]).cost_usd == 0
