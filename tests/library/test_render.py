from __future__ import annotations

import itertools
import math
import random
import re
import unicodedata
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof import _format as fmt
from agentprof import _lines, _render
from agentprof.engines.table import ADVICE
from agentprof.model import Call, Cost, FailedAttempt, Phase, Span, TaskMark, Tool, Usage
from agentprof.rollup import roll_up
from agentprof.summary import TIMELINE, TaskSummary, Warn

MS = 1_000_000


def summary(name: str = "answer", cost: Cost | None = None, usage: Usage | None = None) -> TaskSummary:
    """A task of 1 s: a call of 600 ms with a retry, a tool of 200 ms, and 200 ms of its own."""
    mark = TaskMark(id="a1b2c3d4e5", starts=True, name=name, outcome="success", labels={"customer": "acme"})
    root = Span(
        trace_id="t", span_id="r", kind="task", title=name, start_ns=1, end_ns=1 + 1000 * MS, task=mark
    )
    asked = Call(
        model="m-1",
        attempts=2,
        failed_attempts=(FailedAttempt(duration_ns=50 * MS, backoff_ns=150 * MS, status="429"),),
        first_token_ns=350 * MS,
        phases={"generation": Phase(ns=250 * MS, source="observed")},
        usage=usage,
        cost=cost,
    )
    inside: dict[str, Any] = {"trace_id": "t", "parent_id": "r"}
    call = Span(span_id="c", kind="model", title="m-1", start_ns=1, end_ns=1 + 600 * MS, call=asked, **inside)
    tool = Span(
        span_id="x",
        kind="tool",
        title="look",
        start_ns=1 + 700 * MS,
        end_ns=1 + 900 * MS,
        tool=Tool(),
        **inside,
    )
    return roll_up("a1b2c3d4e5", [root, call, tool])


PRICED = Cost(amount_usd=Decimal("0.0125"), by_class_usd={"input": Decimal("0.0125")}, source="table")
USED = Usage(input=1200, output=300, cache_read=300, reasoning=100)


def test_every_part_of_a_timeline_is_described() -> None:
    """The parts, their letters and colours are complete, in the summary's order, and tell apart."""
    assert tuple(_lines.PHASES) == TIMELINE
    assert tuple(_render.COLOURS) == TIMELINE
    letters = [letter for letter, _ in _lines.PHASES.values()]
    assert len(set(letters)) == len(letters)


def _linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _lab(colour: str) -> tuple[float, float, float]:
    red, green, blue = _linear(colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, _luminance(colour), z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def test_colours_can_be_told_apart_on_white_and_on_black() -> None:
    """A contrast of 2.5 with both, and a clear difference (CIE 76) between any two."""
    for colour in _render.COLOURS.values():
        assert 1.05 / (_luminance(colour) + 0.05) >= 2.5
        assert (_luminance(colour) + 0.05) / 0.05 >= 2.5
    for one, other in itertools.combinations(_render.COLOURS.values(), 2):
        assert math.dist(_lab(one), _lab(other)) >= 20, (one, other)


def test_bars_fill_their_width() -> None:
    """Cells sum to the width, every part that is there is seen, and sizes are within a cell of exact."""
    chance = random.Random(3)
    for _ in range(300):
        timeline = dict.fromkeys(TIMELINE, 0)
        for name in chance.sample(TIMELINE, chance.randint(1, 12)):
            timeline[name] = chance.choice([1, chance.randint(1, 10**6), chance.randint(1, 10**12)])
        wall = sum(timeline.values())
        width = chance.randint(12, 130)
        cells = _lines.bar({"timeline_ns": timeline, "wall_ns": wall}, width)
        assert sum(size for _, size in cells) == width
        assert [name for name, _ in cells] == [name for name in TIMELINE if timeline[name]]
        for name, size in cells:
            assert size >= 1
            spare = width - len(cells)
            assert abs(size - 1 - spare * timeline[name] / wall) <= 1


def test_no_time_no_bar() -> None:
    """A task of zero length has an empty bar and shares that are unknown."""
    empty = {"timeline_ns": dict.fromkeys(TIMELINE, 0), "wall_ns": 0}
    assert _lines.bar(empty, 40) == []
    assert _lines.waited_for(empty) == "\N{EN DASH}"


def test_the_text_of_a_task() -> None:
    """Header, bar, key, facts and profile, line by line."""
    text = _render.as_text(summary(usage=USED, cost=PRICED), width=80)
    lines = text.splitlines()
    assert lines[0] == "answer   success   1.00 s   task a1b2c3d4e5"
    assert lines[1].startswith("[wwwwwwwwwww")
    assert lines[1].endswith("....]")
    assert len(lines[1]) == 80
    assert "w wait 150 ms 15%" in lines[2]
    assert "waited for   the model 40%, retries 20%, tools 20%, the program 20%" in lines
    assert "cost         $0.0125" in lines
    assert "tokens       1,200 in (25% from cache), 300 out (100 reasoning)" in lines
    assert "calls        1 model call in 2 attempts, 1 tool run" in lines
    assert "retries      1 transport retry, 150 ms back-off, 50.0 ms in failed attempts" in lines
    assert "first token  350 ms" in lines
    assert "labels       customer=acme" in lines
    (row,) = [line for line in lines if line.startswith("  m-1")]
    assert row.split() == ["m-1", "1", "600", "ms", "600", "ms", "1", "1500", "$0.0125"]


def test_a_failure_that_nobody_tried_again() -> None:
    """Is a failed attempt and no retry: in the text, in the bar's words, of one task and of many."""
    root = Span(
        trace_id="t",
        span_id="r",
        kind="task",
        start_ns=1,
        end_ns=1 + 1000 * MS,
        task=TaskMark(id="a1b2c3d4e5", starts=True, name="ask"),
    )
    refused = Call(
        model="m-1",
        attempts=1,
        failed_attempts=(FailedAttempt(status="404", duration_ns=600 * MS, backoff_ns=0),),
    )
    inside: dict[str, Any] = {"kind": "model", "title": "m-1", "start_ns": 1, "end_ns": 1 + 600 * MS}
    call = Span(trace_id="t", parent_id="r", span_id="c", error=True, call=refused, **inside)
    found = roll_up("a1b2c3d4e5", [root, call])
    text = _render.as_text(found)
    assert "waited for   failed attempts 60%, the program 40%" in text.splitlines()
    assert "failed       600 ms in failed attempts" in text.splitlines()
    assert "retries" not in text
    many = {"timeline_ns": found.timeline_ns, "wall_ns": found.wall_ns, "transport_retries": 0}
    assert _lines.waited_for(many) == "failed attempts 60%, the program 40%"
    assert _lines.waited_for(many | {"transport_retries": 1}) == "retries 60%, the program 40%"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_text_keeps_to_its_width(width: int) -> None:
    """Also with a long name; a cut line says so."""
    text = _render.as_text(summary(name="x" * 300), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "x…   success   1.00 s" in text.splitlines()[0]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("code", sorted(ADVICE))
def test_what_to_do_about_missing_times_is_not_cut(code: str, width: int) -> None:
    """Each engine's advice is there to its last word, with its switches whole, however narrow the text is."""
    warned = Warn(code="timing_faults", count=2, detail="longer than the call " * 9)
    found = msgspec.structs.replace(
        summary(), warnings=[warned], advice=[Warn(code=code, count=1, detail=ADVICE[code])]
    )
    text = _render.as_text(found, width=width)
    assert max(map(len, text.splitlines())) <= width
    said = " ".join(text.split())
    assert said.endswith(f"! {code}: {ADVICE[code]}")
    assert f"! timing_faults (2): {warned.detail.strip()} !" in said
    for switch in re.findall(r"--[a-z-]+", ADVICE[code]):
        assert switch in text


@given(
    st.text(min_size=1, max_size=60),
    st.text(min_size=1, max_size=80),
    st.integers(min_value=30, max_value=140),
)
def test_the_head_keeps_outcome_and_time(name: str, task_id: str, width: int) -> None:
    """Name and id share what is left; an id is cut only after the first 24 columns of the name are safe."""
    document = fmt.printable_document({"name": name, "task_id": task_id, "wall_ns": 10**9, "outcome": None})
    head = _lines.head(document, width)
    assert (head.outcome, head.wall) == ("unknown", "1.00 s")
    assert fmt.cells(_lines.HEAD_GAP.join(filter(None, head))) <= width
    if width >= 48 and fmt.cells(document["name"]) <= 24:
        assert head.name == document["name"]


NASTY = "\x1b[31mred\x1b]0;title\x07\nsecond\tline\u202e\x9b"


def test_texts_of_a_task_cannot_act_on_a_terminal() -> None:
    """Names, ids, labels, models and tools are written out, in the text and in the HTML."""
    found = summary(usage=USED, cost=PRICED)
    nodes = [msgspec.structs.replace(node, path=[part + NASTY for part in node.path]) for node in found.nodes]
    nasty = msgspec.structs.replace(
        found,
        name=NASTY,
        task_id=NASTY,
        labels={NASTY: NASTY},
        nodes=nodes,
        tools={NASTY: found.tools["look"]},
        warnings=[Warn(code=NASTY, count=1, detail=NASTY)],
    )
    plain = _render.as_text(found, width=200)
    for drawing in (_render.as_text(nasty, width=200), _render.as_html(nasty)):
        assert not [char for char in drawing if unicodedata.category(char) in ("Cc", "Cf") and char != "\n"]
        assert "\\x1b[31mred" in drawing
    assert len(_render.as_text(nasty, width=200).splitlines()) == len(plain.splitlines()) + 2


def test_wide_characters_keep_the_columns() -> None:
    """A name of characters two columns wide is cut and padded by columns."""
    for width in (60, 80):
        text = _render.as_text(summary(name="日本語" * 20), width=width)
        assert max(map(fmt.cells, text.splitlines())) <= width


def test_no_model_calls_are_said_to_be_none() -> None:
    """A task that called no model has no unknown tokens."""
    mark = TaskMark(id="a", starts=True, name="idle")
    root = Span(trace_id="t", span_id="r", kind="task", title="idle", start_ns=1, end_ns=9, task=mark)
    text = _render.as_text(roll_up("a", [root]))
    assert "calls        no model calls, 0 tool runs" in text
    assert "tokens  " not in text.partition("total")[0]
    assert "unknown in" not in text


def test_a_huge_profile_shows_the_rows_with_the_most_time() -> None:
    """100 of 30,000 rows, none without those above it, drawn at once; the rest is counted."""
    mark = TaskMark(id="a", starts=True, name="wide")
    root = Span(trace_id="t", span_id="r", kind="task", title="wide", start_ns=0, end_ns=10**12, task=mark)
    calls = [
        Span(
            trace_id="t",
            span_id=f"c{at}",
            parent_id="r",
            kind="model",
            title=f"m-{at:05d}",
            start_ns=at * 1_000_000,
            end_ns=at * 1_000_000 + at + 1,
            call=Call(model=f"m-{at:05d}"),
        )
        for at in range(30_000)
    ]
    text = _render.as_text(roll_up("a", [root, *calls]))
    assert "29,901 rows with less time not shown" in text
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("  m-")]
    assert shown == [f"m-{at:05d}" for at in range(29_999, 29_900, -1)]


@pytest.mark.parametrize("cost", ["1e-300", "1e300", "123456789012.3"])
def test_amounts_of_any_size_keep_the_width(cost: str) -> None:
    """Tiny and huge costs are shown whole, and push nothing out of the line."""
    amount = Decimal(cost)
    odd = Cost(amount_usd=amount, by_class_usd={"input": amount}, source="given")
    for line in _render.as_text(summary(usage=USED, cost=odd)).splitlines():
        assert len(line) <= 80
        assert not line.endswith("…")


def test_unknown_is_said() -> None:
    """Without usage or price: words, never a zero."""
    text = _render.as_text(summary(cost=Cost(unpriced=("no_usage",))))
    assert "cost         unknown: 1 call without usage" in text
    assert "tokens       unknown in, unknown out; 1 call did not say" in text
    (row,) = [line for line in text.splitlines() if line.startswith("  m-1")]
    assert row.split()[-2:] == ["\N{EN DASH}", "unknown"]
    assert "$0" not in text


def test_a_bound_names_what_is_missing() -> None:
    """A cost with a hole is a lower bound, in the header and in the rows above the hole."""
    document = summary(usage=USED, cost=PRICED).to_dict()
    document["cost_complete"] = False
    document["unpriced"] |= {"unknown_model": 2, "abandoned_attempts": 1}
    assert _lines.cost(document) == (
        "≥ $0.0125, without 2 calls of models with no known price, 1 abandoned attempt, perhaps billed"
    )
    assert _lines.short_cost(document) == "≥ $0.0125"
    known = {"calls": 1, "cost_usd": "1", "cost_complete": True}
    assert _render.node_cost(known) == "$1.00"
    assert _render.node_cost(known | {"cost_complete": False}) == "≥ $1.00"
    nothing = {"calls": 0, "cost_usd": None, "cost_complete": True}
    assert _render.node_cost(nothing) == ""
    assert _render.node_cost(nothing | {"calls": 1, "cost_complete": False}) == "unknown"
    assert _render.node_cost(nothing | {"cost_complete": False}) == "unknown"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_well_formed_and_escaped() -> None:
    """A task named like a script stays text; nothing is loaded from elsewhere."""
    nasty = "<script>alert('&')</script>"
    html = summary(name=nasty, usage=USED, cost=PRICED)._repr_html_()
    parser = _Tags()
    parser.feed(html)
    assert parser.open == []
    assert "script" not in parser.seen
    assert parser.text.count(nasty) == 2
    assert "$0.0125" in parser.text
    assert "http" not in html


def test_a_summary_prints_itself() -> None:
    """`print(task.summary())` and a notebook show the drawings."""
    found = summary()
    assert str(found) == _render.as_text(found)
    assert found._repr_html_() == _render.as_html(found)
