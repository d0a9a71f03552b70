"""What is copied from one store to another is all that a task's summary is made of."""

from __future__ import annotations

import pytest
from support.spans import call, task

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof_collector import recompute as recompute_module
from agentprof_collector.recompute import copy_traces, pairs_of, recompute, record_energy, record_outcome
from agentprof_collector.stores import Store, open_store

S = 10**9
START = 1_790_000_000 * S


def declared(name: str) -> list[Span]:
    """A task with one call of two seconds to an endpoint of one's own."""
    model = call(f"call-{name}", START + 2 * S, START + 4 * S, "root", server="gpu1:8000", trace_id=name)
    return [task("root", START, START + 5 * S, id=name, trace_id=name), model]


def implicit(trace_id: str) -> list[Span]:
    """A call below no task."""
    return [call(f"call-{trace_id}", START, START + S, server="gpu1:8000", trace_id=trace_id)]


def feed(store: Store, spans: list[Span]) -> None:
    """Store spans, and add them up."""
    store.add_spans(spans, pairs_of(spans))
    recompute(store, {span.trace_id for span in spans})


@pytest.mark.parametrize("traces_at_once", [500, 1])
def test_outcomes_and_energy_are_copied_with_the_spans(
    traces_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tasks that were declared and of those that were not; what belongs to other traces stays."""
    monkeypatch.setattr(recompute_module, "_TRACES_PER_RECOMPUTE", traces_at_once)
    window = EnergyWindow(
        server="gpu1:8000",
        node="n",
        start_ns=START - S,
        end_ns=START + 10 * S,
        energy_uj=300_000_000,
        running_low=1,
        running_high=1,
    )
    elsewhere = EnergyWindow(
        server="gpu2", node="n", start_ns=START, end_ns=START + S, energy_uj=1, running_low=1, running_high=1
    )
    with open_store(None) as source, open_store(None) as target:
        feed(source, [*declared("a"), *declared("b"), *implicit("t"), *declared("stays")])
        record_energy(source, [window, elsewhere])
        for name, outcome in (("a", "failure"), ("trace:t", "success"), ("stays", "success")):
            fact = OutcomeFact(task_id=name, outcome=outcome, score=0.5, recorded_ns=START)  # type: ignore[arg-type]
            record_outcome(source, fact)
        expected = {summary.task_id: summary for summary in source.tasks()}
        assert expected["a"].energy_j is not None
        assert (expected["a"].outcome, expected["trace:t"].outcome) == ("failure", "success")
        for _ in range(2):
            copy_traces(source, target, {"a", "b", "t"})
            found = {summary.task_id: summary for summary in target.tasks()}
            assert found == {name: expected[name] for name in ("a", "b", "trace:t")}
        assert target.outcomes_of(["stays"]) == []
        assert target.windows_of(["gpu1:8000", "gpu2"], 0, 2**62) == [window]
