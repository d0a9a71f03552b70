"""Rows and groups of many tasks."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from support.spans import call, cost, task, usage

from agentprof.rollup import roll_up
from agentprof.rollup.many import many
from agentprof.summary import TaskSummary


def summary(number: int, amount: str | None = "0.10", **fields: Any) -> TaskSummary:
    """A task of `number` times 10 ns with one call."""
    task_id = fields.setdefault("id", f"t{number}")
    spans = [task("root", 0, 10 * number, name="job", **fields)]
    spans.append(call("c", 0, 5, "root", usage=usage(2, 1), cost=cost(amount) if amount else None))
    return roll_up(task_id, spans)


def test_a_group_has_quantiles_with_their_sample_sizes() -> None:
    """Of latency over all tasks, of cost over those that have one."""
    (group,) = many([summary(i, "0.10" if i % 2 else None) for i in range(1, 11)])["groups"]
    assert group["key"] == {}
    assert group["wall_ns"] == {"mean": 55, "p50": 50, "p95": 100, "p99": None, "n": 10}
    assert group["cost_usd"]["n"] == 5
    assert group["total_cost_usd"] == Decimal("0.50")
    assert group["cost_complete"] is False
    assert group["tokens"]["input"] == 20


def test_p99_needs_a_hundred_tasks() -> None:
    """Then it is given."""
    (group,) = many([summary(i) for i in range(1, 101)])["groups"]
    assert group["wall_ns"]["p99"] == 990


def test_cost_per_success_is_an_interval_while_outcomes_are_unknown() -> None:
    """Low as if all unknown had succeeded, high as if all had failed; absent without a success."""
    tasks = [summary(1, outcome="success"), summary(2, outcome="failure"), summary(3)]
    (group,) = many(tasks)["groups"]
    assert group["outcomes"] == {"success": 1, "failure": 1, "unknown": 1}
    assert group["cost_per_success_usd"] == {"low": Decimal("0.15"), "high": Decimal("0.30")}
    assert many(tasks[1:])["groups"][0]["cost_per_success_usd"] is None


def test_groups_by_label_name_and_outcome() -> None:
    """Tasks without the label make a group of their own, last."""
    tasks = [summary(1, labels={"tier": "pro"}), summary(2), summary(3, labels={"tier": "free"})]
    assert [g["key"] for g in many(tasks, "label.tier")["groups"]] == [
        {"label.tier": "free"},
        {"label.tier": "pro"},
        {"label.tier": None},
    ]
    assert [g["key"] for g in many(tasks, "name")["groups"]] == [{"name": "job"}]
    assert [g["key"] for g in many(tasks, "outcome")["groups"]] == [{"outcome": None}]
    with pytest.raises(ValueError, match=r"use name, outcome or label\.KEY"):
        many(tasks, "label.")


def test_sub_tasks_of_selected_tasks_are_not_counted_again() -> None:
    """A sub-task whose parent is not selected counts."""
    inner = summary(1, id="inner", parent_id="t2")
    assert [row["task_id"] for row in many([inner, summary(2)])["tasks"]] == ["t2"]
    assert [row["task_id"] for row in many([inner])["tasks"]] == ["inner"]


def test_no_tasks_make_no_groups() -> None:
    """An empty selection is no error."""
    assert many([])["groups"] == []


def test_rows_are_summaries_without_the_profile() -> None:
    """Every other field is there."""
    (row,) = many([summary(1)])["tasks"]
    assert set(TaskSummary.__struct_fields__) - set(row) == {"nodes"}


def test_waste_of_stored_summaries_is_added_up() -> None:
    """Summaries read back from JSON make the same group as those at hand."""
    left = call("c", 0, 5, "root", usage=usage(2, 1), cost=cost("0.10"), stream_end="abandoned")
    whole = [roll_up(f"t{number}", [task("root", 0, 10, id=f"t{number}"), left]) for number in range(3)]
    stored = [msgspec.json.decode(msgspec.json.encode(one), type=TaskSummary) for one in whole]
    assert stored == whole
    (group,) = many(stored)["groups"]
    assert (group["wasted_usd"], [group]) == (Decimal("0.30"), many(whole)["groups"])
