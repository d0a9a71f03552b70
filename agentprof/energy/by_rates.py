"""Energy of calls by the rates of agentprof.yaml."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import NamedTuple

from agentprof.config import Config
from agentprof.energy.busy import busy_ns
from agentprof.energy.given import EnergyRate, Range
from agentprof.model import Call, Energy, Span, Usage
from agentprof.money import EXACT
from agentprof.pricing.names import matches, model_spellings, provider_spellings, server_spellings

_UJ = Decimal(10**6)
_CACHED = 4096
_NOTHING = Decimal(0)


class _Joules(NamedTuple):
    low: Decimal
    high: Decimal

    def plus(self, other: _Joules) -> _Joules:
        return _Joules(EXACT.add(self.low, other.low), EXACT.add(self.high, other.high))


class RatedEnergy:
    """The entries of one configuration, looked up by call."""

    def __init__(self, config: Config) -> None:
        self._entries = config.energy
        self._basis = config.energy_version if config.energy else None
        self._found: dict[tuple[str | None, str | None, str | None], EnergyRate | None] = {}

    @property
    def are_given(self) -> bool:
        """Whether there are entries at all."""
        return bool(self._entries)

    def entry_for(self, call: Call) -> EnergyRate | None:
        """The first entry that is for the call."""
        key = (call.provider, call.model, call.server)
        if key not in self._found:
            if len(self._found) >= _CACHED:
                self._found.clear()
            self._found[key] = next((entry for entry in self._entries if _is_for(entry, call)), None)
        return self._found[key]

    def of(self, span: Span, call: Call) -> Energy | None:
        """By the first entry for the call; None: there is none, or what its rates apply to is unknown."""
        entry = self.entry_for(call)
        if entry is None:
            return None
        joules = _of_time(entry.busy_watts, span, call) if entry.busy_watts else _of_tokens(entry, call.usage)
        if joules is None:
            return None
        return Energy(
            low_uj=int(EXACT.multiply(joules.low, _UJ).to_integral_value(ROUND_FLOOR)),
            high_uj=int(EXACT.multiply(joules.high, _UJ).to_integral_value(ROUND_CEILING)),
            source="config",
            boundary=entry.boundary,
            covers=_covers(entry),
            basis=self._basis,
        )


def _is_for(entry: EnergyRate, call: Call) -> bool:
    return (
        matches(entry.provider, provider_spellings(call.provider))
        and matches(entry.model, model_spellings(call.model or ""))
        and matches(entry.server, server_spellings(call.server))
    )


def _covers(entry: EnergyRate) -> str:
    if entry.busy_watts is not None:
        return "busy time"
    if entry.j_per_output_token is None:
        return "input tokens"
    return "output tokens" if entry.j_per_input_token is None else "tokens"


def _of_time(watts: Range, span: Span, call: Call) -> _Joules | None:
    busy = busy_ns(span, call)
    if busy is None:
        return None
    seconds = Decimal(busy).scaleb(-9, EXACT)
    return _Joules(EXACT.multiply(watts.low, seconds), EXACT.multiply(watts.high, seconds))


def _of_tokens(entry: EnergyRate, usage: Usage | None) -> _Joules | None:
    found = _Joules(_NOTHING, _NOTHING)
    if usage is None:
        return None
    if entry.j_per_input_token is not None:
        if usage.input is None:
            return None
        cached = entry.j_per_cached_token or Range(_NOTHING, entry.j_per_input_token.high)
        found = found.plus(_of_input(usage.input, usage.cache_read, entry.j_per_input_token, cached))
    if entry.j_per_output_token is not None:
        if usage.output is None:
            return None
        found = found.plus(_times(entry.j_per_output_token, usage.output))
    return found


def _of_input(tokens: int, cache_read: int | None, rate: Range, cached: Range) -> _Joules:
    """Where nobody reports cache reads, any part of the input may have been one: linear, so the ends bound it."""
    hits = (0, tokens) if cache_read is None else (min(cache_read, tokens),)
    ways = [_times(rate, tokens - hit).plus(_times(cached, hit)) for hit in hits]
    return _Joules(min(way.low for way in ways), max(way.high for way in ways))


def _times(rate: Range, tokens: int) -> _Joules:
    return _Joules(EXACT.multiply(rate.low, Decimal(tokens)), EXACT.multiply(rate.high, Decimal(tokens)))
