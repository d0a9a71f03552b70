"""Tools that nothing marks, from stored spans to the reports that people read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from support.raw import SECOND, T0, call_span, task_span
from support.serving import OfStore

from agentprof_collector import terminal
from agentprof_collector.reports import REPORTS
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store, open_store

TRACE = "1" * 32


@pytest.fixture
def store() -> Iterator[Store]:
    """One task: a call that asks for a tool, three seconds of it, and the call that gets its result."""
    asks = {"agentprof.tool_calls": ("look",), "agentprof.tool_call_ids": ("ff",)}
    with open_store(None) as opened:
        OfStore(opened).feed(
            [
                task_span(TRACE, "t", start=T0),
                call_span(TRACE, "t", "c1", at=0, seconds=1, **asks),
                call_span(TRACE, "t", "c2", at=4, seconds=1, **{"agentprof.tool_result_ids": ("ff",)}),
            ]
        )
        yield opened


def drawn(name: Any, document: Any) -> str:
    """What stands in a terminal."""
    console = Console(file=io.StringIO(), width=120)
    terminal.draw(name, document, console)
    file: Any = console.file
    return str(file.getvalue())


def test_by_tool(store: Store) -> None:
    """Their time is there, and is no run."""
    document = REPORTS["parts"].document(store, Selection(by="tool"))
    (row,) = document["rows"]
    assert (row["name"], row["runs"], row["tasks"]) == ("look", 0, 1)
    assert row["path_ns"] == row["busy_ns"] == row["inferred_ns"] == 3 * SECOND
    assert "look (inferred)" in drawn("parts", document)


def test_one_task(store: Store) -> None:
    """The profile says of which row the time is inferred, and the summary how it is known."""
    document = REPORTS["task"].document(store, Selection(task_id="t"))
    assert document["evidence_ns"]["tool"] == {"inferred": 3 * SECOND}
    text = drawn("task", document)
    assert "look (inferred)" in text
    assert "3.00 s of tools inferred" in text
