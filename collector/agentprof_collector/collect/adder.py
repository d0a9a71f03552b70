"""Adds tasks up off the receive path: when they are done and quiet, now and then while they are open.

Arrival marks a trace dirty; what shares a task with it is found when it is added up. A trace whose root has
come is due when nothing more came for a moment; every trace is due some seconds after it became dirty.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from typing import Final

from agentprof.model import Span
from agentprof.rollup.tasks import IMPLICIT_PREFIX
from agentprof_collector.collect.meters import Meters
from agentprof_collector.errors import StoreError, TaskNotAddedUp
from agentprof_collector.recompute import AddedUp, recompute
from agentprof_collector.stores import Store

QUIET_S: Final = 0.2
OPEN_S: Final = 5.0
AT_ONCE: Final = 250
"""Traces of a kind added up in one round; who asks for a task waits no longer than for one round."""
_ROOTS: Final = 20_000
"""Traces of which it is remembered that their root has come."""
_MARK_EVERY_S: Final = 1.0
_AGAIN_S: Final = 1.0
"""How long a store that failed is left alone."""

_log = logging.getLogger(__name__)


class _Dirty:
    """A trace that is not added up."""

    __slots__ = ("arrived_ns", "first_s", "has_root", "last_s")

    def __init__(self, now_s: float, arrived_ns: int) -> None:
        self.first_s = now_s
        self.last_s = now_s
        self.arrived_ns = arrived_ns
        self.has_root = False


class Adder:
    """One thread that keeps the rows of tasks up to date.

    Args:
        store: read back from, and written to.
        meters: counts.
        added_up: told of each task that was added up, with its spans.
        quiet_s: how long nothing more of a finished task must come before it is added up.
        open_s: how long an unfinished task may be out of date.
    """

    def __init__(
        self,
        store: Store,
        meters: Meters,
        added_up: AddedUp = lambda summary, spans: None,
        *,
        quiet_s: float = QUIET_S,
        open_s: float = OPEN_S,
    ) -> None:
        self._store = store
        self._meters = meters
        self._added_up = added_up
        self._quiet_s = quiet_s
        self._open_s = open_s
        self._changed = threading.Condition()
        # What comes late of a finished task, as an engine's spans may, need not wait as if it were open.
        self._roots: dict[str, None] = {}
        # Both in the order in which they fall due: by the first arrival, and by the last.
        self._dirty: dict[str, _Dirty] = {}
        self._rooted: dict[str, _Dirty] = {}
        self._judged: dict[str, int] = {}
        self._measured: dict[tuple[int, int], int] = {}
        self._last_arrival_ns = store.added_up_to()
        self._marked_ns = self._last_arrival_ns
        self._marked_s = 0.0
        self._closing = False
        # One at a time: two would write the same rows.
        self._adding = threading.Lock()
        self._take_up_unfinished()
        self._thread = threading.Thread(target=self._run, name="agentprof-add-up", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """It adds up."""
        return self._thread.is_alive()

    @property
    def dirty(self) -> int:
        """Traces that wait to be added up."""
        return len(self._dirty)

    def arrived(self, spans: Sequence[Span], arrived_ns: int) -> None:
        """Take note of spans that are stored now."""
        now_s = time.monotonic()
        with_root = {
            span.trace_id
            for span in spans
            if span.parent_id is None or (span.task is not None and span.task.starts)
        }
        with self._changed:
            self._last_arrival_ns = max(self._last_arrival_ns, arrived_ns)
            self._roots.update(dict.fromkeys(with_root))
            while len(self._roots) > _ROOTS:
                del self._roots[next(iter(self._roots))]
            for trace_id in dict.fromkeys([span.trace_id for span in spans]):
                dirty = self._dirty.get(trace_id)
                if dirty is None:
                    dirty = self._dirty[trace_id] = _Dirty(now_s, arrived_ns)
                dirty.last_s = now_s
                dirty.has_root |= trace_id in with_root or trace_id in self._roots
                if dirty.has_root:
                    # Last in the order again.
                    self._rooted.pop(trace_id, None)
                    self._rooted[trace_id] = dirty
            self._changed.notify()

    def concerns(self, task_ids: Collection[str], arrived_ns: int) -> None:
        """Take note of outcomes of tasks that are stored now."""
        with self._changed:
            self._last_arrival_ns = max(self._last_arrival_ns, arrived_ns)
            self._judged.update(dict.fromkeys(task_ids, arrived_ns))
            self._changed.notify()

    def measured(self, times: Collection[tuple[int, int]], arrived_ns: int) -> None:
        """Take note of measured energy that is stored now: of spans of time, ns since the epoch."""
        with self._changed:
            self._last_arrival_ns = max(self._last_arrival_ns, arrived_ns)
            whole = (min(start for start, _ in times), max(end for _, end in times))
            self._measured.setdefault(whole, arrived_ns)
            self._changed.notify()

    def up_to_date(self, task_ids: Collection[str] | None = None) -> None:
        """Add up now what has arrived of these tasks; of all tasks: of those whose root has come."""
        self._look_up_judged()
        self._look_up_measured()
        if task_ids is None:
            with self._changed:
                asked = set(self._rooted)
        else:
            traces = self._traces_of(task_ids)
            with self._changed:
                asked = traces & self._dirty.keys()
        with self._adding:
            self._add_up(self._take(asked))

    def forget(self, before_ns: int) -> int:
        """See `Store.forget`; not while rows are made of spans that were read before they are forgotten."""
        with self._adding:
            return self._store.forget(before_ns)

    def close(self) -> None:
        """Add up all that has arrived, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _traces_of(self, task_ids: Collection[str]) -> set[str]:
        implicit = {i.removeprefix(IMPLICIT_PREFIX) for i in task_ids if i.startswith(IMPLICIT_PREFIX)}
        return self._store.traces_of(task_ids) | implicit

    def _look_up_judged(self) -> None:
        """Make the traces dirty whose tasks got an outcome."""
        with self._changed:
            judged = dict(self._judged)
        if not judged:
            return
        traces = self._traces_of(judged)
        now_s = time.monotonic()
        with self._changed:
            for trace_id in traces:
                dirty = self._dirty.setdefault(trace_id, _Dirty(now_s, min(judged.values())))
                dirty.has_root = True
                self._rooted[trace_id] = dirty
            for task_id in judged:
                self._judged.pop(task_id, None)

    def _look_up_measured(self) -> None:
        """Make the traces dirty of tasks whose time was measured."""
        with self._changed:
            measured = dict(self._measured)
        for (start_ns, end_ns), arrived_ns in measured.items():
            with self._adding:  # rows that are being made just now are there afterwards
                traces = self._store.traces_between(start_ns, end_ns)
            now_s = time.monotonic()
            with self._changed:
                for trace_id in traces:
                    self._dirty.setdefault(trace_id, _Dirty(now_s, arrived_ns))
                self._measured.pop((start_ns, end_ns), None)

    def _take_up_unfinished(self) -> None:
        now_s = time.monotonic() - self._open_s
        for trace_id in self._store.arrived_since(self._marked_ns):
            self._dirty[trace_id] = _Dirty(now_s, self._marked_ns + 1)
        if self._dirty:
            _log.info("%d traces of before are being added up", len(self._dirty))

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._closing and not self._judged and not self._measured and not self._due():
                    self._changed.wait(self._until_due_s())
                closing = self._closing
            try:
                self._look_up_judged()
                self._look_up_measured()
                with self._changed:
                    due = set(self._dirty) if closing else self._due()
                with self._adding:
                    self._add_up(self._take(due))
                    self._mark(now=closing)
            except StoreError as error:
                _log.error("tasks cannot be added up now: %s", error)
                if not closing:
                    self._pause()
            if closing:
                return

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, _AGAIN_S)

    def _until_due_s(self) -> float | None:
        """Seconds until the next trace is due; None while nothing is dirty and nothing is to be marked."""
        waits = []
        if self._dirty:
            waits.append(next(iter(self._dirty.values())).first_s + self._open_s)
        if self._rooted:
            waits.append(next(iter(self._rooted.values())).last_s + self._quiet_s)
        if self._last_arrival_ns > self._marked_ns:
            waits.append(self._marked_s + _MARK_EVERY_S)
        return max(0.0, min(waits) - time.monotonic()) if waits else None

    def _due(self) -> set[str]:
        now_s = time.monotonic()
        due: set[str] = set()
        for trace_id, dirty in self._dirty.items():
            if dirty.first_s + self._open_s > now_s or len(due) >= AT_ONCE:
                break
            due.add(trace_id)
        for trace_id, dirty in self._rooted.items():
            if dirty.last_s + self._quiet_s > now_s or len(due) >= 2 * AT_ONCE:
                break
            due.add(trace_id)
        return due

    def _take(self, trace_ids: Collection[str]) -> dict[str, _Dirty]:
        """Out of the waiting ones, before they are read: what arrives from now on makes them dirty again."""
        with self._changed:
            taken = {trace_id: self._dirty.pop(trace_id) for trace_id in trace_ids if trace_id in self._dirty}
            for trace_id in taken:
                self._rooted.pop(trace_id, None)
        return taken

    def _add_up(self, taken: dict[str, _Dirty]) -> None:
        if not taken:
            return
        try:
            with self._meters.add_up_seconds.time():
                ids = recompute(self._store, taken, self._not_added_up, added_up=self._added_up)
        except StoreError:
            self._put_back(taken)
            raise
        except Exception as error:  # noqa: BLE001
            self._add_up_apart(taken, error)
            return
        self._meters.tasks_added_up.inc(len(ids))

    def _add_up_apart(self, taken: dict[str, _Dirty], error: Exception) -> None:
        """Whichever trace it was must not cost the others."""
        if len(taken) == 1:
            (trace_id,) = taken
            self._not_added_up(TaskNotAddedUp(IMPLICIT_PREFIX + trace_id, error))
            return
        rest = dict(taken)
        try:
            for trace_id, dirty in taken.items():
                del rest[trace_id]
                self._add_up({trace_id: dirty})
        except StoreError:
            self._put_back(rest)
            raise

    def _put_back(self, taken: dict[str, _Dirty]) -> None:
        with self._changed:
            for trace_id, dirty in taken.items():
                newer = self._dirty.get(trace_id)
                if newer is not None:
                    dirty.last_s = newer.last_s
                    dirty.has_root |= newer.has_root
            both = self._dirty | taken
            self._dirty = dict(sorted(both.items(), key=lambda item: item[1].first_s))
            rooted = [item for item in both.items() if item[1].has_root]
            self._rooted = dict(sorted(rooted, key=lambda item: item[1].last_s))

    def _not_added_up(self, error: TaskNotAddedUp) -> None:
        self._meters.tasks_not_added_up.inc()
        _log.warning("%s", error)

    def _mark(self, *, now: bool) -> None:
        """Keep in the store up to where everything is added up, so that a next process can go on from there."""
        now_s = time.monotonic()
        if not now and now_s - self._marked_s < _MARK_EVERY_S:
            return
        self._marked_s = now_s
        with self._changed:
            waiting = [dirty.arrived_ns for dirty in self._dirty.values()]
            waiting += [*self._judged.values(), *self._measured.values()]
            up_to_ns = min(waiting) - 1 if waiting else self._last_arrival_ns
        if up_to_ns > self._marked_ns:
            self._store.set_added_up_to(up_to_ns)
            self._marked_ns = up_to_ns
