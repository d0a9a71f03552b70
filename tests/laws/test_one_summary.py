"""Law 2: any order, batching, duplication or re-delivery of the same spans and facts gives the same summary."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.generated import agent_loops, task_spans
from support.spans import TASK

from agentprof.model import EnergyWindow, Facts, OutcomeFact, Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.calls import call_rows
from agentprof.rollup.many import many

facts = st.lists(
    st.builds(
        lambda outcome, score, at: OutcomeFact(task_id=TASK, outcome=outcome, score=score, recorded_ns=at),
        st.sampled_from(["success", "failure"]),
        st.none() | st.floats(0, 1),
        st.integers(0, 3),
    ),
    max_size=4,
)


windows = st.lists(
    st.builds(
        lambda start, length, joules, low, more, tokens, server, node: EnergyWindow(
            server=server,
            node=node,
            start_ns=start,
            end_ns=start + length,
            energy_uj=joules,
            running_low=low,
            running_high=low + more,
            tokens=tokens,
        ),
        st.integers(-5, 10),
        st.integers(0, 99),
        st.integers(0, 10**9),
        st.integers(0, 2),
        st.integers(0, 2),
        st.none() | st.integers(0, 99),
        st.sampled_from(["gpu1", "gpu1:1"]),
        st.sampled_from(["n1", "n1", "n2"]),
    ),
    max_size=6,
)


@given(task_spans() | agent_loops(), st.data())
def test_order_and_copies_do_not_matter(spans: list[Span], data: st.DataObject) -> None:
    """Spans and facts shuffled, some twice, give an equal summary and equal rows of calls."""
    recorded = data.draw(facts)
    again = data.draw(st.permutations([*spans, *data.draw(st.lists(st.sampled_from(spans), max_size=5))]))
    recorded_again = data.draw(st.permutations([*recorded, *recorded]))
    measured = data.draw(windows)
    measured_again = data.draw(st.permutations([*measured, *measured]))
    first = roll_up(TASK, spans, Facts(outcomes=tuple(recorded), windows=tuple(measured)))
    second = roll_up(TASK, again, Facts(outcomes=tuple(recorded_again), windows=tuple(measured_again)))
    assert first == second
    assert call_rows(TASK, spans, measured) == call_rows(TASK, again, measured_again)


@given(task_spans(), st.data())
def test_a_span_written_at_its_start_and_again_at_its_end_counts_once(
    spans: list[Span], data: st.DataObject
) -> None:
    """The copy without an end gives way, whichever arrives first."""
    ended = [span for span in spans if span.end_ns is not None]
    early = [msgspec.structs.replace(span, end_ns=None, attributes_count=0) for span in ended]
    assert roll_up(TASK, spans) == roll_up(TASK, data.draw(st.permutations([*spans, *early])))


@given(task_spans(), task_spans(), st.data())
def test_the_tasks_found_do_not_hang_on_the_order(
    mine: list[Span], others: list[Span], data: st.DataObject
) -> None:
    """Spans of two tasks, mixed, are parted the same way."""
    theirs = [
        msgspec.structs.replace(
            span,
            span_id=f"o{span.span_id}",
            parent_id=f"o{span.parent_id}" if span.parent_id else None,
            task=None,
        )
        for span in others
    ]
    spans = [*mine, *theirs]
    mixed = data.draw(st.permutations(spans))
    found, again = tasks_in(spans), tasks_in(mixed)
    assert found == again
    assert TASK in found
    summaries = [roll_up(task_id, part) for task_id, part in sorted(found.items())]
    assert many(summaries) == many([roll_up(task_id, part) for task_id, part in sorted(again.items())])


@given(task_spans())
def test_adding_up_in_two_steps_is_adding_up_at_once(spans: list[Span]) -> None:
    """What `tasks_in` gives for the task adds up like all spans of the task."""
    assert roll_up(TASK, tasks_in(spans)[TASK]) == roll_up(TASK, spans)
