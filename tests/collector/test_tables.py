from __future__ import annotations

import io
import json
import re
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from agentprof import _format as fmt
from agentprof.model import RawSpan
from agentprof.pricing import Pricer
from agentprof_collector import terminal
from agentprof_collector.errors import TaskAmbiguous, TaskNotFound
from agentprof_collector.find import find_task
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.reports import REPORTS, ReportName, to_json
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store, open_store
from agentprof_collector.tables import Column, FittedTable

T0 = 1_790_000_000_000_000_000
SECOND = 1_000_000_000
NASTY = "\x1b[31mred\x1b]0;title\x07 [bold]b[/bold]\nsecond\tline\u202e\x9b2J"


def task(
    task_id: str, name: str, *, model: str = "gpt-4o", calls: int = 1, **attributes: Any
) -> list[RawSpan]:
    """A task with calls of one model and a tool run that fails."""
    common: dict[str, Any] = {"agentprof.task.id": task_id}
    root = RawSpan(
        trace_id=task_id,
        span_id="r",
        name=name,
        start_ns=T0,
        end_ns=T0 + 10 * SECOND,
        attributes=common | {"agentprof.task.name": name} | attributes,
    )
    spans = [root]
    for at in range(calls):
        call = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
        }
        spans.append(below(task_id, f"c{at}", at + 1, common | call))
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"look {name}", "error.type": name}
    return [*spans, below(task_id, "t", 7, common | tool, status=2)]


def below(task_id: str, span_id: str, second: int, attributes: dict[str, Any], status: int = 0) -> RawSpan:
    """A span of one second below the task's."""
    start = T0 + second * SECOND
    return RawSpan(
        trace_id=task_id,
        span_id=span_id,
        parent_id="r",
        start_ns=start,
        end_ns=start + SECOND,
        attributes=attributes,
        status=status,
    )


@pytest.fixture
def store() -> Any:
    with open_store(None) as store:
        yield store


def feed(store: Store, *tasks: list[RawSpan]) -> None:
    """Store and add up."""
    pipeline = Pipeline(store, Pricer())
    for spans in tasks:
        pipeline.accept(spans)
    pipeline.recompute()


def drawn(store: Store, name: ReportName, width: int = 80, **asked: Any) -> str:
    """A report as text without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    terminal.draw(name, REPORTS[name].document(store, Selection(**asked)), console)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("task", {"task_id": NASTY}),
        ("tasks", {}),
        ("tasks", {"group_by": "name"}),
        ("tasks", {"group_by": "label.k"}),
        ("parts", {"by": "tool"}),
        ("parts", {"by": "model"}),
        ("calls", {}),
    ],
)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_cannot_act_on_the_terminal(
    store: Store, name: ReportName, asked: dict[str, Any], width: int
) -> None:
    """In no report, at no width: escapes, new lines and marks of direction are written out."""
    labels = {"agentprof.label.k": NASTY, f"agentprof.label.{NASTY}": "v"}
    feed(store, task(NASTY, NASTY, model=NASTY, **labels))
    text = drawn(store, name, width, **asked)
    assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cf") and char != "\n"]
    assert "\\x1b[3" in text
    assert max(fmt.cells(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", range(40, 130, 10))
def test_what_does_not_fit_is_left_out_whole_and_said(store: Store, width: int) -> None:
    """Names, ids, outcomes and costs stay; no figure is cut; the columns that went are named."""
    ids = [f"support-ticket-2026-11-30-acme-corp-{number:06d}" for number in range(3)]
    feed(store, *(task(task_id, "answer ticket", calls=3) for task_id in ids))
    text = drawn(store, "tasks", width)
    for task_id in ids:
        (row,) = [line for line in text.splitlines() if task_id[-6:] in line]
        assert row.startswith("answer ")
        assert " unknown " in row
        assert "$0.0105" in row
    kept, hint, rest = text.partition("no room for: ")
    head = " ".join(kept.splitlines()[0].split())
    left_out = (
        " ".join(rest.split()).partition(" (widen the terminal, or --json)")[0].split(", ") if hint else []
    )
    for column in ("id", "outcome", "wall", "calls", "tokens", "cost", "waited most for"):
        assert (column in head) != (column in left_out)
    assert bool(left_out) == (width < 80)
    for line in kept.splitlines()[1:]:
        assert "…" not in re.sub("^answer[^…]*…", "", line).replace("support-…", "")


@pytest.mark.parametrize("name", ["task", "parts", "calls"])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_amounts_are_whole_in_every_table(store: Store, name: ReportName, width: int) -> None:
    """At no width a cost is cut or disappears."""
    feed(store, task("a", "answer", calls=2))
    asked = {"task": {"task_id": "a"}, "parts": {"by": "model"}, "calls": {}}[name]
    text = drawn(store, name, width, **asked)
    assert ("$0.00350" if name == "calls" else "$0.00700") in text


def test_a_part_with_something_unpriced_costs_at_least(store: Store) -> None:
    """A step, agent or model with calls that have no price shows a bound; others an amount."""
    feed(store, task("a", "answer"), task("b", "answer", model="no-such-model"))
    rows = {row["name"]: row for row in REPORTS["parts"].document(store, Selection(by="model"))["rows"]}
    assert (Decimal(rows["gpt-4o"]["cost_usd"]), rows["gpt-4o"]["cost_complete"]) == (Decimal("0.0035"), True)
    assert (rows["no-such-model"]["cost_usd"], rows["no-such-model"]["cost_complete"]) == (None, False)
    text = drawn(store, "parts", by="model")
    assert "≥: something is missing from the cost" in text
    # The same model once with usage and once without.
    without = task("c", "answer", calls=2)
    attributes = {key: value for key, value in without[1].attributes.items() if "usage" not in key}
    half = RawSpan(
        trace_id="c", span_id="c0", parent_id="r", start_ns=T0, end_ns=T0 + SECOND, attributes=attributes
    )
    feed(store, [without[0], half, *without[2:]])
    rows = {row["name"]: row for row in REPORTS["parts"].document(store, Selection(by="model"))["rows"]}
    assert (Decimal(rows["gpt-4o"]["cost_usd"]), rows["gpt-4o"]["cost_complete"]) == (Decimal("0.007"), False)
    (line,) = [line for line in drawn(store, "parts", by="model").splitlines() if line.startswith("gpt-4o")]
    assert line.rstrip().endswith("≥ $0.00700")


def test_both_ends_of_an_incomplete_interval_are_bounds(store: Store) -> None:
    """Cost per success, where outcomes and prices are unknown."""
    ended = {"agentprof.task.outcome": "success"}
    feed(store, task("a", "answer", **ended), task("b", "answer", model="no-such-model"))
    assert "≥ $0.00175 to ≥ $0.00350 per success" in drawn(store, "tasks", 200)


@pytest.mark.parametrize("by", ["tool", "model"])
def test_tens_of_thousands_of_names_are_reported_at_once(store: Store, tmp_path: Path, by: Any) -> None:
    """The time of a report grows with the rows, not with their square."""
    root = task("a", "answer")[0]
    spans = [root]
    for at in range(20_000):
        kind = {
            "tool": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"n{at}"},
            "model": {"gen_ai.operation.name": "chat", "gen_ai.request.model": f"n{at}"},
        }[by]
        spans.append(
            RawSpan(
                trace_id="a",
                span_id=f"s{at}",
                parent_id="r",
                start_ns=T0 + at * 100_000,
                end_ns=T0 + at * 100_000 + 100_000,
                attributes=kind | {"agentprof.task.id": "a"},
            )
        )
    feed(store, spans)
    document = REPORTS["parts"].document(store, Selection(by=by, limit=30))
    assert (document["count"], sum(row["runs"] for row in document["rows"])) == (20_000, 30)
    assert "19,970 more not shown" in drawn(store, "parts", by=by, limit=30)
    assert "19,901 rows with less time not shown" in drawn(store, "task", task_id="a")


def test_json_escapes_what_acts_on_a_terminal(store: Store) -> None:
    """And keeps the text."""
    feed(store, task("a", NASTY))
    text = to_json(REPORTS["task"].document(store, Selection(task_id="a"))).decode()
    assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cf")]
    assert json.loads(text)["name"] == NASTY


def test_a_task_is_found_as_tables_show_it(store: Store) -> None:
    """By its beginning, its end, or both with what a table leaves out between."""
    ids = [f"support-ticket-2026-11-30-acme-corp-{number:06d}" for number in range(3)]
    feed(store, *(task(task_id, "answer") for task_id in ids))
    for task_id, short in zip(ids, fmt.short_ids(ids), strict=True):
        assert find_task(store, task_id) == find_task(store, short) == task_id
        assert find_task(store, task_id[-6:]) == task_id
    with pytest.raises(TaskAmbiguous):
        find_task(store, "support-")
    with pytest.raises(TaskNotFound):
        find_task(store, "support-…9")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_names_that_alone_tell_rows_apart_stay_different(width: int) -> None:
    """Figures leave before endpoints of the same model look like one; a single name gives way as ever."""
    names = ["small at 10.0.0.1", "small at 10.0.0.2:8000", "small at 10.0.0.2:8001", "small at 10.0.0.3"]
    shown = [line.split("  ")[0] for line in drawn_names(names, width)]
    assert len(set(shown)) == len(names)
    for one, name in zip(shown, names, strict=True):
        assert [name] == [other for other in names if other.startswith(one.rstrip("…"))]
    (alone,) = drawn_names(["a model of a very long name at a host of a very long name"], 60)
    assert alone.count("1,234,567") == 4


def drawn_names(names: list[str], width: int) -> list[str]:
    """The rows of a table whose figures need 45 columns."""
    table = FittedTable("model", *(Column("1,234,567", leaves) for leaves in range(5)), apart=True)
    for name in names:
        table.add(Text(name), *["1,234,567"] * 5)
    console = Console(file=io.StringIO(), width=width)
    table.print(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()[1 : len(names) + 1]
