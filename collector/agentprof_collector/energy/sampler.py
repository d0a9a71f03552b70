"""Windows of measured energy, one after the other without a gap, as long as everything can be read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from agentprof.model import EnergyWindow
from agentprof_collector.energy.nvml import EnergyCounter
from agentprof_collector.energy.running import Load
from agentprof_collector.errors import AgentprofError

COUNTS_A_WINDOW: Final = 5
"""How often the engine is asked in a window, beside its begin and its end."""

_log = logging.getLogger(__name__)


class Engine(Protocol):
    """What tells how many requests are worked on, and how many tokens there were."""

    def read(self) -> Load:
        """Now; raises `AgentprofError` if it is not known."""


class _Edge(NamedTuple):
    """What was read between two windows."""

    at_ns: int
    counters_mj: list[int]
    load: Load


class Sampler:
    """Measures one endpoint.

    Args:
        server: the endpoint, as calls name it.
        node: the name of this machine.
        counter: of its accelerators.
        engine: that it serves.
        wait: waits some seconds; true: stop.
        clock_ns: wall clock.
    """

    def __init__(
        self,
        server: str,
        node: str,
        counter: EnergyCounter,
        engine: Engine,
        wait: Callable[[float], bool],
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._server = server
        self._node = node
        self._counter = counter
        self._engine = engine
        self._wait = wait
        self._clock_ns = clock_ns
        self._trouble: str | None = None
        self.left_out = 0
        """Windows in which something could not be read, or a counter began anew."""

    def windows(self, every_s: float) -> Iterator[EnergyWindow]:
        """Measure until `wait` says stop; a window that began is ended before."""
        begin = self._edge()
        stopped = False
        while not stopped:
            counts: list[int | None] = []
            for _ in range(COUNTS_A_WINDOW):
                stopped = self._wait(every_s / COUNTS_A_WINDOW)
                if stopped:
                    break
                now = self._load()
                counts.append(None if now is None else now.running)
            end = self._edge()
            window = self._between(begin, end, counts)
            if window is not None:
                yield window
            elif begin is None or end is None or begin.at_ns != end.at_ns:
                self.left_out += 1
            begin = end

    def _between(
        self, begin: _Edge | None, end: _Edge | None, counts: list[int | None]
    ) -> EnergyWindow | None:
        if begin is None or end is None or end.at_ns <= begin.at_ns:
            return None
        known = [count for count in (begin.load.running, *counts, end.load.running) if count is not None]
        if len(known) < len(counts) + 2:
            return None
        taken = [after - before for before, after in zip(begin.counters_mj, end.counters_mj, strict=True)]
        if min(taken) < 0:
            self._note("a counter began anew: the driver was loaded again, or a GPU was reset")
            return None
        return EnergyWindow(
            server=self._server,
            node=self._node,
            start_ns=begin.at_ns,
            end_ns=end.at_ns,
            energy_uj=sum(taken) * 1000,
            running_low=min(known),
            running_high=max(known),
            tokens=_between(begin.load.tokens, end.load.tokens),
        )

    def _edge(self) -> _Edge | None:
        load = self._load()
        try:
            before_ns = self._clock_ns()
            counters = self._counter.read_mj()
            at_ns = (before_ns + self._clock_ns()) // 2
        except AgentprofError as error:
            self._note(str(error))
            return None
        return None if load is None else _Edge(at_ns, counters, load)

    def _load(self) -> Load | None:
        try:
            found = self._engine.read()
        except AgentprofError as error:
            self._note(str(error))
            return None
        self._trouble = None
        return found

    def _note(self, trouble: str) -> None:
        """Said once while it lasts."""
        if trouble != self._trouble:
            _log.warning("not measured: %s", trouble)
        self._trouble = trouble


def _between(before: int | None, after: int | None) -> int | None:
    """What a counter went on; None: it is not known, or began anew."""
    return None if before is None or after is None or after < before else after - before
