"""Rows of calls say of each phase where it comes from, and of each call what the server said and cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from support.raw import call_span, task_span

from agentprof.rollup import roll_up
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.vocabularies import normalise

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def reported(**fields: tuple[str, float]) -> dict[str, Any]:
    """Attributes of phases by name: path of the raw field and seconds."""
    found: dict[str, Any] = {}
    for phase, (field, seconds) in fields.items():
        found[f"agentprof.phase.{phase}"] = seconds
        found[f"agentprof.phase_source.{phase}"] = "reported"
        found[f"agentprof.phase_field.{phase}"] = field
    return found


def row_of(attributes: dict[str, Any]) -> CallRow:
    """The row of one call of one second; the warnings of its task name the same faults."""
    spans = [normalise(span) for span in (task_span(TRACE, "t"), call_span(TRACE, "t", "call", **attributes))]
    (row,) = call_rows("t", spans)
    counted = {warning.code: warning for warning in roll_up("t", spans).warnings}
    said = counted.get("timing_faults")
    assert len(row.timing_faults) == (said.count if said is not None else 0)
    for fault in row.timing_faults:
        assert said is not None
        assert fault in said.detail
    return row


CONTRADICT = {
    "longer than the call": (
        {"generation": ("usage.completion_time", 1.2)},
        None,
        ["usage.completion_time: longer than the call"],
    ),
    "later than the first token": (
        {"prefill": ("usage.prompt_time", 0.5)},
        0.1,
        ["usage.prompt_time: longer than the time to the first token"],
    ),
    "a part longer than its whole": (
        {"wait": ("usage.time_to_first_token", 0.8), "model": ("usage.total_latency", 0.3)},
        None,
        ["usage.time_to_first_token: longer than the whole it is part of"],
    ),
}


@pytest.mark.parametrize(("given", "first_token", "faults"), CONTRADICT.values(), ids=CONTRADICT.keys())
def test_what_contradicts_the_call_is_named_at_the_call(
    given: dict[str, tuple[str, float]], first_token: float | None, faults: list[str]
) -> None:
    """The figure is no phase and its field none of the fields; the row and the warning of the task name it alike."""
    seen = {"agentprof.first_token": first_token} if first_token is not None else {}
    row = row_of(reported(**given) | seen)
    assert row.timing_faults == faults
    left_out = {fault.split(":")[0] for fault in faults}
    assert not left_out & set(row.phase_fields.values())
    assert sum(row.phases_ns.values()) == row.duration_ns


def test_a_phase_that_follows_from_two_figures_names_both() -> None:
    """SambaNova says the time to the first token and the whole: generation is what is left, and says of what."""
    given = {"wait": ("usage.time_to_first_token", 0.2), "model": ("usage.total_latency", 0.9)}
    row = row_of(reported(**given))
    assert row.phase_sources["generation"] == "derived"
    assert row.phase_fields == {
        "wait": "usage.time_to_first_token",
        "generation": "usage.total_latency - usage.time_to_first_token",
    }
