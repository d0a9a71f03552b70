"""The part of every store's suite that is about questions on many tasks: equal to the library's answers."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.generated import task_spans
from support.spans import TASK

from agentprof.model import Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.many import dearest, many
from agentprof.summary import TaskSummary
from agentprof_collector.stores import ListPlace, Store, TaskFilter, TaskRow

NAMES = ("answer", "Answer 2", "tidy_up", "o'hara %")
AMOUNTS = (
    *("0", "0.00", "0.1", "0.10", "0.0035", "1E+2", "7.50E-7", "0.000000000000000001"),
    *("12.345678901", "999999999999.999999999999999999"),
)
HARD_AMOUNTS = ("1E-30", "0.1234567890123456789012", "123456789012345.6", "-0.0", "-2.5")

amounts = st.none() | st.sampled_from(AMOUNTS).map(Decimal) | st.decimals(0, 50, places=9)
maybe = st.none() | st.integers(0, 2**40)
energies = st.none() | st.builds(
    lambda low, more: {"low": low / 1e6, "high": (low + more) / 1e6},
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)


@st.composite
def summaries(draw: st.DrawFn, hard: bool = False) -> list[TaskSummary]:
    """Tasks as they come out of adding up, with fields of their own that questions are about."""
    spans: list[Span] = draw(task_spans(max_spans=6))
    base = roll_up(TASK, tasks_in(spans)[TASK])
    of_one = amounts | st.sampled_from(HARD_AMOUNTS).map(Decimal) if hard else amounts
    ids = draw(st.lists(st.sampled_from([f"t{n}" for n in range(12)]), unique=True, max_size=8))
    return [
        msgspec.structs.replace(
            base,
            task_id=task_id,
            parent_task_id=draw(st.none() | st.sampled_from([*ids, "elsewhere"])),
            name=draw(st.sampled_from(NAMES)),
            trace_ids=[f"trace of {task_id}"],
            services=draw(st.lists(st.sampled_from(["shop", "search"]), unique=True)),
            labels=draw(st.dictionaries(st.sampled_from(["customer", "k"]), st.sampled_from(["a", "b", ""]))),
            outcome=draw(st.sampled_from([None, "success", "failure"])),
            start_ns=draw(st.integers(0, 3)),
            wall_ns=draw(st.integers(0, 5) | st.integers(0, 2**62)),
            attempts=draw(maybe),
            tokens={name: draw(maybe) for name in base.tokens},
            cost_usd=draw(of_one),
            cost_complete=draw(st.booleans()),
            wasted={**base.wasted, "cost_usd": draw(of_one)},
            energy_j=draw(energies),
            calls_without_energy=draw(maybe),
        )
        for task_id in ids
    ]


filters = st.builds(
    TaskFilter,
    ids=st.just(()) | st.lists(st.sampled_from([f"t{n}" for n in range(12)]), min_size=1).map(tuple),
    name=st.none() | st.sampled_from(NAMES),
    outcome=st.sampled_from([None, None, "success", "failure", "unknown"]),
    labels=st.dictionaries(st.sampled_from(["customer", "k"]), st.sampled_from(["a", ""]), max_size=2),
    service=st.sampled_from([None, None, "shop", "nowhere"]),
    since_ns=st.none() | st.integers(0, 3),
    until_ns=st.none() | st.integers(0, 4),
    search=st.sampled_from([None, None, "ANSWER", "_", "%", "t1"]),
    tops=st.booleans(),
)
group_bys = st.sampled_from([None, "name", "outcome", "label.customer", "label.none"])


def fits(summary: TaskSummary, which: TaskFilter) -> bool:
    """The conditions, in Python."""
    text = (which.search or "").lower()
    return (
        (not which.ids or summary.task_id in which.ids)
        and which.name in (None, summary.name)
        and which.outcome in (None, summary.outcome or "unknown")
        and which.labels.items() <= summary.labels.items()
        and (which.service is None or which.service in summary.services)
        and (which.since_ns is None or summary.start_ns >= which.since_ns)
        and (which.until_ns is None or summary.start_ns < which.until_ns)
        and (text in summary.name.lower() or text in summary.task_id.lower())
    )


def listed(tasks: list[TaskSummary], which: TaskFilter) -> list[TaskSummary]:
    """What `Store.tasks` answers, from all that is stored."""
    left = sorted((s for s in tasks if fits(s, which)), key=lambda s: (-s.start_ns, s.task_id))
    ids = {summary.task_id for summary in left}
    return [summary for summary in left if not which.tops or summary.parent_task_id not in ids]


def put(store: Store, tasks: list[TaskSummary]) -> None:
    """Make these the tasks of the store, and no others."""
    store.put_tasks([], {trace for summary in store.tasks() for trace in summary.trace_ids})
    rows = [TaskRow(summary=summary, spans=1, facts=0) for summary in tasks]
    store.put_tasks(rows, {trace for summary in tasks for trace in summary.trace_ids})


def in_json(value: Any) -> bytes:
    """Also two equal amounts that are written differently differ."""
    return msgspec.json.encode(value)


# Every example replaces what is stored, and the classes have no state of their own.
any_store = settings(
    max_examples=100,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
    ],
)


class StoreQuestions:
    """Tests of one store; a subclass gives the fixture `store`."""

    @any_store
    @given(tasks=summaries(), which=filters, group_by=group_bys)
    def test_groups_are_those_of_the_library(
        self, store: Store, tasks: list[TaskSummary], which: TaskFilter, group_by: str | None
    ) -> None:
        """Every figure of every group, to the last digit and the way it is written."""
        put(store, tasks)
        expected = many(listed(tasks, msgspec.structs.replace(which, tops=False)), group_by)
        assert in_json(store.groups(which, group_by)) == in_json(expected["groups"])

    @any_store
    @given(tasks=summaries(hard=True), group_by=group_bys)
    def test_groups_of_amounts_no_column_holds(
        self, store: Store, tasks: list[TaskSummary], group_by: str | None
    ) -> None:
        """Amounts with very many digits are added up exactly too."""
        put(store, tasks)
        expected = many(listed(tasks, TaskFilter()), group_by)
        assert in_json(store.groups(group_by=group_by)) == in_json(expected["groups"])

    @any_store
    @given(tasks=summaries(hard=True), which=filters, group_by=group_bys, most=st.integers(1, 4))
    def test_no_more_groups_than_asked_for(
        self, store: Store, tasks: list[TaskSummary], which: TaskFilter, group_by: str | None, most: int
    ) -> None:
        """Of more than that those that cost most, whole and in their order."""
        put(store, tasks)
        every = many(listed(tasks, msgspec.structs.replace(which, tops=False)), group_by)["groups"]
        shown = store.groups(which, group_by, most=most)
        assert in_json(shown) == in_json(dearest(every, most))
        assert len(shown) == min(most, len(every))

    def test_groups_of_many(self, store: Store) -> None:
        """Enough for a 99th percentile, at the edges of the ranks, with amounts that are equal but written
        differently, and numbers no column holds."""
        chance = random.Random(5)
        base = roll_up("t", tasks_in([_root()])["t"])
        for size in (99, 100, 101, 240):
            tasks = [
                msgspec.structs.replace(
                    base,
                    task_id=f"t{n:03}",
                    trace_ids=[f"x{n}"],
                    start_ns=chance.randrange(5),
                    wall_ns=chance.randrange(60),
                    cost_usd=Decimal(chance.choice(["0.1", "0.10", "0.100", "0.25", "3"])),
                )
                for n in range(size)
            ]
            put(store, tasks)
            expected = many(listed(tasks, TaskFilter()))
            assert expected["groups"][0]["cost_usd"]["n"] == size
            assert in_json(store.groups()) == in_json(expected["groups"])
        huge = msgspec.structs.replace(tasks[0], tokens={**base.tokens, "input": 2**70})
        put(store, [huge, *tasks[1:]])
        assert store.groups()[0]["tokens"]["input"] == 2**70

    @any_store
    @given(tasks=summaries(), which=filters, limit=st.integers(1, 4))
    def test_lists_and_their_pages(
        self, store: Store, tasks: list[TaskSummary], which: TaskFilter, limit: int
    ) -> None:
        """The tasks the conditions leave, in order, whole or page by page."""
        put(store, tasks)
        expected = listed(tasks, which)
        assert store.tasks(which) == expected
        pages: list[TaskSummary] = []
        after: ListPlace | None = None
        while page := store.tasks(which, after=after, limit=limit):
            assert len(page) == min(limit, len(expected) - len(pages))
            pages += page
            after = ListPlace(page[-1].start_ns, page[-1].task_id)
        assert pages == expected

    def test_what_cannot_be_grouped_by(self, store: Store) -> None:
        """As in the library."""
        for group_by in ("label.", "start_ns", "name; DROP TABLE tasks"):
            with pytest.raises(ValueError, match=r"use name, outcome or label\.KEY"):
                store.groups(group_by=group_by)

    @pytest.mark.parametrize(
        "text", ["' OR ''='", "\x00", "%", "_", "\\", '"', "$ids", "{conditions}", "\N{GRINNING FACE}" * 500]
    )
    def test_texts_in_questions_are_only_texts(self, store: Store, text: str) -> None:
        """Whatever is asked for means itself, in every field."""
        put(store, [roll_up("t", tasks_in([_root()])["t"])])
        asked = (
            TaskFilter(ids=(text,)),
            TaskFilter(name=text),
            TaskFilter(labels={text: text}),
            TaskFilter(service=text),
            TaskFilter(search=text),
        )
        assert [store.tasks(which) for which in asked] == [[]] * len(asked)
        assert [store.groups(which) for which in asked] == [[]] * len(asked)
        assert store.tasks(after=ListPlace(2**63 - 1, text))[0].task_id == "t"
        assert [group["key"] for group in store.groups(group_by=f"label.{text}")] == [{f"label.{text}": None}]


def _root() -> Span:
    from support.spans import task

    return task("root", 0, 10, id="t", name="n")
