"""Odd moments, lengths and amounts: a page shows them, and does not fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.markup import Markup
from support.raw import SECOND, T0, call_span, task_span, tool_span
from support.serving import OfStore

from agentprof.model import RawSpan
from agentprof.summary import TIMELINE
from agentprof_collector.page.bars import WIDTH, Scale, stacked
from agentprof_collector.page.times import moment


@pytest.mark.parametrize(
    ("back_s", "ago"),
    [
        (-3600, "in the future"),
        (-2, "just now"),
        (4, "just now"),
        (5, "5 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 d ago"),
        (7 * 86_400, "2026-09-14"),
    ],
)
def test_how_long_ago(back_s: int, ago: str) -> None:
    """In one unit; what is long ago has its date."""
    assert moment(T0 - back_s * SECOND, T0).ago == ago


@pytest.mark.parametrize(
    ("at_ns", "date"),
    [
        (T0, "2026-09-21 14:13:20 UTC"),
        (0, "1970-01-01 00:00:00 UTC"),
        (-5, "1970-01-01 00:00:00 UTC"),
        (2**63 - 1, "2262-04-11 23:47:16 UTC"),
        (2**80, "9999-12-31 23:59:59 UTC"),
    ],
)
def test_any_number_is_a_moment(at_ns: int, date: str) -> None:
    """Also one that no calendar has."""
    assert moment(at_ns, T0).date == date


@pytest.mark.parametrize(
    "parts", [{}, {"tool": 5}, {"wait": 1, "generation": 10**15}, dict.fromkeys(TIMELINE, 7)]
)
def test_pieces_fill_a_bar(parts: dict[str, int]) -> None:
    """Without gap or overlap, however short a part is; none is narrower than can be seen."""
    timeline = dict.fromkeys(TIMELINE, 0) | parts
    pieces = stacked({"timeline_ns": timeline, "wall_ns": sum(timeline.values())})
    assert [piece.name for piece in pieces] == [name for name in TIMELINE if name in parts]
    assert all(piece.width >= 50 for piece in pieces)
    ends = [0, *(piece.x + piece.width for piece in pieces)]
    assert ends[:-1] == [piece.x for piece in pieces]
    assert ends[-1] == (WIDTH if parts else 0)


def test_a_piece_stays_on_its_bar() -> None:
    """Whatever its times are."""
    scale = Scale(100, 50)
    for start, end in ((100, 150), (0, 1000), (150, 150), (149, 400), (90, 95), (200, 100)):
        piece = scale.piece("tool", start, end, "")
        assert 0 <= piece.x < WIDTH
        assert piece.width >= 1
        assert piece.x + piece.width <= WIDTH
    assert Scale(5, 0).piece("tool", 5, 5, "").x == 0


ODD: dict[str, list[RawSpan]] = {
    "no length": [
        RawSpan(
            trace_id="1" * 32, span_id="a", start_ns=T0, end_ns=T0, attributes={"agentprof.task.id": "odd"}
        )
    ],
    "backwards": [
        RawSpan(
            trace_id="1" * 32,
            span_id="a",
            start_ns=T0,
            end_ns=T0 - 5,
            attributes={"agentprof.task.id": "odd"},
        )
    ],
    "no end": [RawSpan(trace_id="1" * 32, span_id="a", start_ns=T0, attributes={"agentprof.task.id": "odd"})],
    "no names": [
        task_span("1" * 32, "odd", name=""),
        tool_span("1" * 32, "odd", "b", name=""),
        call_span("1" * 32, "odd", "c", gen_ai__response__model="", gen_ai__request__model=""),
    ],
    "far future": [task_span("1" * 32, "odd", start=2**62)],
    "skew": [
        task_span("1" * 32, "odd"),
        tool_span("1" * 32, "odd", "b", at=-500, seconds=1),
        tool_span("1" * 32, "odd", "c", at=5000),
    ],
    "huge": [task_span("1" * 32, "odd"), call_span("1" * 32, "odd", "c", gen_ai__usage__input_tokens=2**53)],
    "deep": [
        task_span("1" * 32, "odd"),
        *(
            RawSpan(
                trace_id="1" * 32,
                span_id=f"s{number}",
                parent_id=f"s{number - 1}" if number else "root",
                start_ns=T0,
                end_ns=T0 + SECOND,
                attributes={"agentprof.task.id": "odd", "agentprof.step.name": f"step {number}"},
            )
            for number in range(100)
        ),
    ],
}


@pytest.mark.parametrize("spans", ODD.values(), ids=ODD)
def test_odd_tasks_have_their_pages(
    fresh: OfStore, fresh_read: Callable[[str], Markup], spans: list[RawSpan]
) -> None:
    """In the list, as a group, and on a page of their own."""
    fresh.feed(spans)
    assert [
        one.attributes["href"] for one in fresh_read("/").of("a") if "/odd" in one.attributes["href"]
    ] == ["/tasks/odd"]
    assert fresh_read("/?group_by=name").of("table", **{"class": "list groups"})
    found = fresh_read("/tasks/odd")
    assert found.of("table", **{"class": "fall"})
    for rect in found.of("rect"):
        assert int(rect.attributes["x"]) + int(rect.attributes["width"]) <= WIDTH
