"""The part of every store's suite that is about measured energy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
from support.spans import task

from agentprof.model import EnergyWindow
from agentprof.rollup import roll_up
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, TaskRow


def window(start_ns: int, end_ns: int, server: str = "gpu1:8000", node: str = "n1") -> EnergyWindow:
    return EnergyWindow(
        server=server,
        node=node,
        start_ns=start_ns,
        end_ns=end_ns,
        energy_uj=2**40 + start_ns,
        running_low=0,
        running_high=3,
        tokens=None if node == "n2" else 2**41,
    )


def row_between(name: str, start_ns: int, end_ns: int) -> TaskRow:
    """A task with a trace of its own."""
    span = task("root", start_ns, end_ns, id=name, trace_id=f"trace of {name}")
    return TaskRow(summary=roll_up(name, [span]), spans=1, facts=0)


class StoreEnergy:
    """Windows of endpoints, and the tasks they concern."""

    def test_windows_are_found_by_endpoint_and_time(self, store: Store) -> None:
        """Those that touch a span of time are not in it; given again they are one; any case of the name."""
        first, second = window(100, 200), window(200, 300)
        other, loud = window(100, 200, node="n2"), window(100, 200, server="GPU1:8000")
        elsewhere = window(100, 200, server="gpu2")
        store.add_windows([first, second, other])
        store.add_windows([first, loud, elsewhere])
        store.add_windows([])
        assert set(store.windows_of(["gpu1:8000", "gpu1"], 150, 200)) == {first, other, loud}
        assert len(store.windows_of(["gpu1:8000"], 0, 1000)) == 4
        assert store.windows_of(["gpu1:8000"], 299, 300) == [second]
        assert store.windows_of(["gpu1:8000"], 300, 400) == store.windows_of(["gpu1"], 0, 900) == []
        assert store.windows_of([], 0, 1000) == []

    def test_tasks_of_a_time_and_of_energy_that_arrived(self, store: Store) -> None:
        """Their traces, so that they can be added up again, also by a process that starts later."""
        store.put_tasks(
            [row_between("a", 100, 200), row_between("b", 150, 400)], {"trace of a", "trace of b"}
        )
        assert store.traces_between(120, 150) == {"trace of a"}
        assert store.traces_between(199, 201) == {"trace of a", "trace of b"}
        assert store.traces_between(400, 500) == store.traces_between(0, 100) == set()
        store.add_windows([window(300, 350)], arrived_ns=70)
        assert store.arrived_since(69) == {"trace of b"}
        assert store.arrived_since(70) == set()

    def test_windows_of_tasks_that_are_left_are_left(self, store: Store) -> None:
        """Else such a task would have less to be added up from than its row, and no later fact would reach it."""
        second, far = 10**9, 10**15
        own = task("root", far, far + 10 * second, id="a", trace_id="trace of a")
        store.add_spans([own], pairs_of([own]), arrived_ns=2 * far)
        windows = [window(far + at * second, far + (at + 5) * second) for at in (-900, -60, 0, 5, 60, 900)]
        store.add_windows(windows, arrived_ns=far)
        recompute(store, ["trace of a"])
        store.forget(far + 2000 * second)
        assert set(store.windows_of(["gpu1:8000"], 0, 2 * far)) == set(windows[1:5])
        store.forget(2 * far + 1)
        assert store.windows_of(["gpu1:8000"], 0, 2 * far) == []
        # Clocks say what they like.
        last = task("root", 2**63 - 2, 2**63 - 1, id="a", trace_id="trace of a")
        store.add_spans([last], pairs_of([last]), arrived_ns=2 * far)
        recompute(store, ["trace of a"])
        latest = msgspec.structs.replace(window(0, 1), start_ns=2**63 - 3, end_ns=2**63 - 2)
        store.add_windows([latest, window(0, 1)], arrived_ns=far)
        store.forget(2 * far)
        store.forget(2**63 - 1)
        assert store.windows_of(["gpu1:8000"], 0, 2**63 - 1) == [latest]

    def test_windows_last_and_are_forgotten(
        self, open_store: Callable[[], AbstractContextManager[Store]]
    ) -> None:
        """Beyond the connection; what ended and arrived before goes."""
        with open_store() as store:
            store.add_windows([window(100, 200), window(900, 1000)], arrived_ns=50)
            store.add_windows([window(200, 300)], arrived_ns=5000)
        with open_store() as store:
            assert len(store.windows_of(["gpu1:8000"], 0, 9999)) == 3
            store.forget(600)
            assert set(store.windows_of(["gpu1:8000"], 0, 9999)) == {window(900, 1000), window(200, 300)}
