"""Which measured energy is read for which calls: all that lies in and around their times, whoever else called."""

from __future__ import annotations

import random
from collections.abc import Collection

import msgspec
from support.spans import call, task

from agentprof.model import EnergyWindow, Facts, Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.calls import call_rows
from agentprof.rollup.measured import AROUND_NS
from agentprof.rollup.waterfall import waterfall
from agentprof_collector.measured_windows import Windows
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, open_store

S = 10**9
DAY_S = 86_400
START = 1_790_000_000 * S


def window(start_s: float, end_s: float, node: str = "n", server: str = "gpu1:8000") -> EnergyWindow:
    return EnergyWindow(
        server=server,
        node=node,
        start_ns=START + int(start_s * S),
        end_ns=START + int(end_s * S),
        energy_uj=300_000_000,
        running_low=1,
        running_high=2,
    )


def task_at(second: int, *calls: tuple[float, float], server: str = "gpu1:8000") -> list[Span]:
    """A task in a trace of its own with calls so many seconds after its start."""
    at = START + second * S
    name = f"t{second}"
    spans = [task("root", at, at + 60 * S, id=name, trace_id=name)]
    for number, (start, end) in enumerate(calls):
        own = call(f"c{number}", at + int(start * S), at + int(end * S), "root", server=server)
        spans.append(msgspec.structs.replace(own, trace_id=name, task=None))
    return spans


class Asked:
    """A store that notes how many windows are read from it, and how often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.times = 0
        self.read = 0

    def windows_of(self, servers: Collection[str], start_ns: int, end_ns: int) -> list[EnergyWindow]:
        found = self._store.windows_of(servers, start_ns, end_ns)
        self.times += 1
        self.read += len(found)
        return found


def test_what_lies_between_two_calls_is_not_read() -> None:
    """Two calls a day apart need some minutes of it; a call whose clock is wrong by years adds nothing but its own."""
    with open_store(None) as store:
        store.add_windows([window(at, at + 10) for at in range(0, DAY_S, 10)])
        spans = [*task_at(0, (1, 20)), *task_at(DAY_S - 100, (1, 20))]
        lost = call("lost", 1, 2, server="gpu1:8000", trace_id="t0")
        asked = Asked(store)
        found = Windows(asked, [*spans, lost])  # type: ignore[arg-type]
        around_s = AROUND_NS / S
        assert asked.times == 3
        assert asked.read <= 2 * (19 + 2 * around_s + 20) / 10
        assert len(found.during(spans[:2])) == (20 + around_s) / 10


def test_many_calls_are_few_questions() -> None:
    """Of a thousand calls, each far from the next, no more than a hundred; every call has its windows."""
    spans = [span for at in range(0, 1_000_000, 1_000) for span in task_at(at, (1, 2))]
    with open_store(None) as store:
        store.add_windows([window(at, at + 10) for at in range(0, 1_000_000, 1_000)])
        asked = Asked(store)
        found = Windows(asked, spans)  # type: ignore[arg-type]
        assert asked.times == 100
        assert all(len(found.during(own)) == 1 for own in tasks_in(spans).values())


def test_a_call_has_the_same_energy_in_every_answer() -> None:
    """Windows overlap and have holes, tasks are added up together or alone: rows are as of all facts."""
    for seed in range(4):
        rnd = random.Random(seed)
        windows = []
        for node in ("n", "n", "m"):
            at = rnd.random() * 20
            while at < 400:
                length = rnd.choice((1.0, 5.0, 13.0))
                if rnd.random() < 0.97:
                    windows.append(window(at, at + length, node))
                at += length
        spans = []
        for second in range(0, 360, 30):
            starts = [rnd.random() * 50 for _ in range(rnd.randrange(1, 4))]
            spans += task_at(second, *[(start, start + rnd.random() * 9) for start in starts])
        tasks = tasks_in(spans)
        with open_store(None) as store:
            store.add_spans(spans, pairs_of(spans))
            store.add_windows(windows)
            recompute(store, {span.trace_id for span in spans})
            together = {summary.task_id: summary for summary in store.tasks()}
            facts = {row.task_id: row for row in together.values()}
            for name, own in tasks.items():
                recompute(store, {name})
                alone = store.task(name)
                assert alone == together[name]
                assert alone == roll_up(name, own, Facts(windows=tuple(windows)))
                during = Windows(store, own).during(own)
                by_call = [row.energy_j for row in call_rows(name, own, during)]
                drawn = [
                    row.energy_j for row in waterfall(name, own, None, during).rows if row.kind == "model"
                ]
                known = [joules for joules in by_call if joules is not None]
                assert [joules for joules in drawn if joules is not None] == known
                assert (facts[name].energy_j is not None) == bool(known)
