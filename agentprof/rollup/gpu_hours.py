"""What tokens and successes cost on GPUs paid by the hour, at the utilisation that the calls give.

The utilisation of an endpoint is the time in which at least one of its calls was in progress, over the span of time
looked at. A call is in progress from the start of the attempt that gave the answer to its end, without the
program's own time after the last token; calls that only failed are not. Calls of others than the tasks looked at
are not seen: to them belongs part of what is called idle here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

import msgspec

from agentprof.energy.given import GpuHours
from agentprof.model import EnergyWindow, Outcome
from agentprof.money import EXACT
from agentprof.pricing.names import matches, model_spellings, server_spellings
from agentprof.rollup.calls import CallRow
from agentprof.rollup.measured import Series, in_series, name_in

_NS_PER_HOUR = 3_600 * 10**9
_MILLION = 10**6
_TEN_PLACES = Decimal("1e-10")


class BusyAndAll(msgspec.Struct, frozen=True, kw_only=True):
    """The same figure for the hours in which calls were in progress, and for all hours, idle ones included."""

    busy: Decimal
    with_idle: Decimal


class PerSuccess(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tasks that called it: low as if all of unknown outcome had succeeded, high as if they had failed."""

    busy_low: Decimal
    busy_high: Decimal
    with_idle_low: Decimal
    with_idle_high: Decimal


class GpuHourRow(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint, or model, whose GPUs are paid by the hour."""

    server: str
    model: str
    """Patterns of the entry."""
    gpus: int
    gpu_hour_usd: Decimal
    tasks: int
    """That called it."""
    calls: int
    calls_without_usage: int
    """Their tokens are in no figure."""
    busy_ns: int
    """Time in which at least one call was in progress."""
    call_ns: int
    """Plain sum of the times of its calls; by `busy_ns`: how many ran at once."""
    utilisation: float
    """`busy_ns` over the span of time looked at."""
    cost_usd: Decimal
    """Of all GPUs over the whole span of time."""
    busy_usd: Decimal
    idle_usd: Decimal
    input_tokens: int
    output_tokens: int
    energy_j: float | None
    """What its GPUs took meanwhile; None: nobody measured it."""
    idle_energy_j: float | None
    """Of it that of windows in which no request ran, of whomever."""
    usd_per_million_tokens: BusyAndAll | None
    """By input and output together."""
    usd_per_million_output_tokens: BusyAndAll | None
    usd_per_success: PerSuccess | None


class _Sums:
    """What is known of one entry while tasks go by."""

    def __init__(self, entry: GpuHours) -> None:
        self.entry = entry
        self.stretches: list[tuple[int, int]] = []
        self.servers: set[str] = set()
        self.outcomes: dict[Outcome | None, int] = {}
        self.calls = self.without_usage = self.tokens_in = self.tokens_out = 0

    def add(self, outcome: Outcome | None, calls: Sequence[CallRow]) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        for call in calls:
            self.calls += 1
            if call.server is not None:
                self.servers.add(call.server)
            used = (call.tokens["input"], call.tokens["output"])
            self.without_usage += None in used
            self.tokens_in += used[0] or 0
            self.tokens_out += used[1] or 0
            if (stretch := _in_progress(call)) is not None:
                self.stretches.append(stretch)


class GpuHourCosts:
    """Adds tasks up, in any order; a call belongs to the first entry of agentprof.yaml that is for it."""

    def __init__(self, entries: Sequence[GpuHours]) -> None:
        self._entries = entries
        self._found = [_Sums(entry) for entry in entries]
        self._entry_of: dict[tuple[str | None, str | None], int | None] = {}

    def add(self, outcome: Outcome | None, calls: Iterable[CallRow]) -> None:
        """Count one task: how it ended, and its calls."""
        by_entry: dict[int, list[CallRow]] = {}
        for call in calls:
            key = (call.server, call.model)
            if key not in self._entry_of:
                self._entry_of[key] = next(
                    (at for at, e in enumerate(self._entries) if _is_for(e, *key)), None
                )
            if (at := self._entry_of[key]) is not None:
                by_entry.setdefault(at, []).append(call)
        for at, own in by_entry.items():
            self._found[at].add(outcome, own)

    @property
    def servers(self) -> set[str]:
        """The endpoints of the calls."""
        return {server for sums in self._found for server in sums.servers}

    def rows(self, start_ns: int, end_ns: int, windows: Iterable[EnergyWindow] = ()) -> list[GpuHourRow]:
        """One row an entry that has calls, in their order.

        Args:
            start_ns: Begin of the span of time the GPUs are paid for.
            end_ns: Its end.
            windows: Measured energy of the endpoints; those count that begin in the span.
        """
        series = in_series(window for window in windows if start_ns <= window.start_ns < end_ns)
        with localcontext(EXACT):
            return [
                _row(sums, start_ns, end_ns, series)
                for sums in self._found
                if sums.calls and end_ns > start_ns
            ]


def _is_for(entry: GpuHours, server: str | None, model: str | None) -> bool:
    return matches(entry.server, server_spellings(server)) and matches(
        entry.model, model_spellings(model or "")
    )


def _in_progress(call: CallRow) -> tuple[int, int] | None:
    phases = call.phases_ns
    start = call.start_ns + phases.get("failed_attempt", 0) + phases.get("backoff", 0)
    end = call.start_ns + call.duration_ns - phases.get("client", 0)
    return (start, end) if end > start else None


def _row(sums: _Sums, start_ns: int, end_ns: int, series: Series) -> GpuHourRow:
    entry = sums.entry
    clipped = [(max(start, start_ns), min(end, end_ns)) for start, end in sums.stretches]
    busy_ns = _union_ns(clipped)
    per_ns = entry.gpu_hour_usd * entry.gpus / _NS_PER_HOUR
    cost, busy = _rounded(per_ns * (end_ns - start_ns)), _rounded(per_ns * busy_ns)
    names = {name_in(series, server) for server in sums.servers} - {""}
    measured = [window for name in names for own in series[name].values() for window in own]
    idle_uj = sum(window.energy_uj for window in measured if not window.running_high)
    successes, unknown = sums.outcomes.get("success", 0), sums.outcomes.get(None, 0)
    return GpuHourRow(
        server=entry.server,
        model=entry.model,
        gpus=entry.gpus,
        gpu_hour_usd=entry.gpu_hour_usd,
        tasks=sum(sums.outcomes.values()),
        calls=sums.calls,
        calls_without_usage=sums.without_usage,
        busy_ns=busy_ns,
        call_ns=sum(max(0, end - start) for start, end in clipped),
        utilisation=round(busy_ns / (end_ns - start_ns), 6),
        cost_usd=cost,
        busy_usd=busy,
        idle_usd=cost - busy,
        input_tokens=sums.tokens_in,
        output_tokens=sums.tokens_out,
        energy_j=sum(window.energy_uj for window in measured) / 1e6 if measured else None,
        idle_energy_j=idle_uj / 1e6 if measured else None,
        usd_per_million_tokens=_per_million(busy, cost, sums.tokens_in + sums.tokens_out),
        usd_per_million_output_tokens=_per_million(busy, cost, sums.tokens_out),
        usd_per_success=PerSuccess(
            busy_low=_rounded(busy / (successes + unknown)),
            busy_high=_rounded(busy / successes),
            with_idle_low=_rounded(cost / (successes + unknown)),
            with_idle_high=_rounded(cost / successes),
        )
        if successes
        else None,
    )


def _union_ns(stretches: Iterable[tuple[int, int]]) -> int:
    total, reached = 0, None
    for start, end in sorted(stretches):
        if reached is None or start > reached:
            reached = start
        if end > reached:
            total, reached = total + end - reached, end
    return total


def _per_million(busy: Decimal, cost: Decimal, tokens: int) -> BusyAndAll | None:
    if not tokens:
        return None
    return BusyAndAll(busy=_rounded(busy * _MILLION / tokens), with_idle=_rounded(cost * _MILLION / tokens))


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_TEN_PLACES, ROUND_HALF_EVEN)
