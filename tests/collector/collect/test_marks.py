"""How far everything is added up is said only of what was told: a next process goes on from there."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator

import pytest
from support.collecting import collecting

from agentprof_collector.collect import adder as adding
from agentprof_collector.receive.exchange import Answer, Request
from agentprof_collector.stores.duckdb import DuckDbStore

OUTCOMES = 400


class Marking(DuckDbStore):
    """In memory; notes of which outcomes the adder has looked, whenever it says how far it is."""

    def __init__(self) -> None:
        super().__init__(None)
        self.looked_for: set[str] = set()
        self.passed_over: list[str] = []

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """Who adds up asks this of every task that got an outcome."""
        self.looked_for.update(task_ids)
        return super().traces_of(task_ids)

    def set_added_up_to(self, arrived_ns: int) -> None:
        """Says of what arrived until then that it is added up."""
        rows = self._file.read(
            lambda cursor: cursor.execute(
                "SELECT task_id FROM outcomes WHERE arrived_ns <= ?", [arrived_ns]
            ).fetchall()
        )
        self.passed_over += [task_id for (task_id,) in rows if task_id not in self.looked_for]
        super().set_added_up_to(arrived_ns)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns all the time, and the adder says how far it is whenever it can."""
    monkeypatch.setattr(adding, "_MARK_EVERY_S", 0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_no_outcome_is_passed_over() -> None:
    """A kill between its storing and its telling would leave its task as it was for good."""
    pairs = [{"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "pass"}}]
    with Marking() as store, collecting(store) as collected:
        for number in range(OUTCOMES):
            name = {"key": "agentprof.task.id", "value": {"stringValue": f"t{number}"}}
            record = {"eventName": "gen_ai.evaluation.result", "attributes": [*pairs, name]}
            body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
            assert collected.collector.submit(Request("logs", "json", "", body)).result(30) == Answer()
        collected.collector.stop()
        assert len(store.looked_for) == OUTCOMES
        assert store.passed_over == []
