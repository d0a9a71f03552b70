"""What can be of the times an engine reported: the rest is named, never cut to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentprof.model import SOURCES, Phase

STRENGTH: Final = {source: rank for rank, source in enumerate(SOURCES)}

_TOLERANCE_NS: Final = 5_000_000
"""By so much two clocks, roundings and the two ends of a connection may differ."""
_LATE_NS: Final = 50_000_000
_LONGER_THAN_CALL: Final = "longer than the call"
_LONGER_THAN_FIRST: Final = "longer than the time to the first token"
_LONGER_THAN_WHOLE: Final = "longer than the whole it is part of"


class Times:
    """The phases of a last attempt, without what cannot be, and with what follows from two of them."""

    def __init__(self, phases: Mapping[str, Phase], length_ns: int, first_token_ns: int | None) -> None:
        """Args:
        length_ns: Of the last attempt.
        first_token_ns: From its start; None: none was seen.
        """
        self.known = dict(phases)
        self.faults: list[str] = []
        connect = self.known.get("connect")
        self._connect_ns = connect.ns if connect is not None else 0
        for name in _OF_ENGINE:
            self._check((name,), length_ns, _LONGER_THAN_CALL)
        for sum_of in (("queue", "prefill"), ("wait",)):
            if first_token_ns is not None:
                self._check(sum_of, first_token_ns, _LONGER_THAN_FIRST)
        self._check(("wait", "generation"), length_ns, _LONGER_THAN_CALL)
        self._check(("queue", "prefill", "generation"), length_ns, _LONGER_THAN_CALL)
        self._complete()

    def _check(self, names: tuple[str, ...], most_ns: int, reason: str) -> None:
        """Drop figures whose sum is more than there was: first what is derived, then what else is reported.

        What is derived from the stamps of a busy client is late by a little: that much is taken from it, so that
        it leaves room for connecting, which came before anything the engine did.
        """
        found = {name: self.known[name] for name in names if is_reported(self.known.get(name))}
        derived = {name: phase for name, phase in found.items() if phase.source == "derived"}
        excess = sum(phase.ns for phase in found.values()) - most_ns
        late = excess + self._connect_ns
        if late > _LATE_NS:
            late = excess
        if derived and 0 < late <= _LATE_NS:
            name, phase = max(derived.items(), key=lambda item: (item[1].ns, item[0]))
            self.known[name] = found[name] = Phase(
                ns=max(phase.ns - late, 0), source="derived", field=phase.field
            )
        for suspects in (derived, found) if derived else (found,):
            if sum(phase.ns for phase in found.values()) <= most_ns + _TOLERANCE_NS:
                return
            fields = " + ".join(phase.field or name for name, phase in found.items())
            self._drop(tuple(suspects), f"{fields}: {reason}")
            found = {name: phase for name, phase in found.items() if name not in suspects}

    def _drop(self, names: tuple[str, ...], fault: str) -> None:
        for name in names:
            self.known.pop(name, None)
        self.faults.append(fault)

    def _complete(self) -> None:
        """Add what two figures say together of a third."""
        if not {"queue", "prefill"} <= self.known.keys():
            self._less("wait", "model", ("generation",))
        self._less("queue", "wait", ("prefill",))
        self._less("prefill", "wait", ("queue",))
        self._less("generation", "model", ("wait",) if "wait" in self.known else ("queue", "prefill"))

    def _less(self, name: str, whole: str, parts: tuple[str, ...]) -> None:
        """Add a figure that is what is left of another when its parts are taken away."""
        known = self.known
        if name in known or any(not is_reported(known.get(part)) for part in (whole, *parts)):
            return
        left = known[whole].ns - sum(known[part].ns for part in parts)
        fields = " - ".join(known[part].field or part for part in (whole, *parts))
        if left < -_TOLERANCE_NS:
            reported = " + ".join(known[part].field or part for part in parts)
            self._drop(parts, f"{reported}: {_LONGER_THAN_WHOLE}")
            return
        known[name] = Phase(ns=max(left, 0), source="derived", field=fields)


_OF_ENGINE: Final = ("queue", "prefill", "wait", "generation", "model")


def is_reported(phase: Phase | None) -> bool:
    """Whether a figure comes from the other side, in whatever way, and is not what was seen on this one."""
    return phase is not None and STRENGTH[phase.source] < STRENGTH["observed"]
