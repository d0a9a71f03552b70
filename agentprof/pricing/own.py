"""The prices of agentprof.yaml for one call, one server-side tool or one tool run."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from fnmatch import fnmatchcase

from agentprof.config import Config, ModelPrice, SelfHosted
from agentprof.model import Call, Cost, Span
from agentprof.money import EXACT
from agentprof.pricing.days import instant, split
from agentprof.pricing.names import matches, model_spellings, provider_spellings, server_spellings
from agentprof.pricing.rates import Price, Rates, per_million, tool_kind

_NS_PER_HOUR = 3_600 * 10**9
_CACHED = 4096

# An hourly rate does not divide into whole digits: far below any amount that is billed.
_TIME_COST_DIGITS = Decimal("1e-15")


class OwnPrices:
    """The entries of one configuration, looked up by call and day."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._version = config.version
        self._prices: dict[tuple[str | None, str | None, int], Price | None] = {}

    def tokens(self, call: Call, start_ns: int) -> Price | None:
        """The price of the call's tokens; None: no entry is for it."""
        if not self._config.prices:
            return None
        day, _ = split(start_ns)
        key = (call.provider, call.model, day)
        try:
            return self._prices[key]
        except KeyError:
            pass
        if len(self._prices) >= _CACHED:
            self._prices.clear()
        entry = next((e for e in self._entries(call, day) if e.input is not None), None)
        found = self._prices[key] = None if entry is None else _price(entry, self._version)
        return found

    def server_tool(self, call: Call, start_ns: int, kind: str) -> Decimal | None:
        """USD per use of a tool that ran at the provider."""
        for entry in self._entries(call, split(start_ns)[0]):
            for name, usd in entry.server_tools.items():
                if tool_kind(name) == tool_kind(kind):
                    return usd
        return None

    def machine_time(self, span: Span, call: Call) -> Cost | None:
        """What the call cost on a machine of one's own; None: no entry is for it, or its end is not known."""
        for entry in self._config.self_hosted:
            if span.end_ns is None or not _runs(entry, call):
                continue
            busy_ns = span.end_ns - span.start_ns - sum(a.backoff_ns for a in call.failed_attempts)
            spent = EXACT.multiply(Decimal(max(busy_ns, 0)), entry.usd_per_hour)
            usd = EXACT.divide(spent, Decimal(_NS_PER_HOUR * entry.slots))
            usd = usd.quantize(_TIME_COST_DIGITS, ROUND_HALF_EVEN, EXACT)
            return Cost(
                amount_usd=usd,
                by_class_usd={"self_hosted": usd},
                source="config",
                priced_as=f"{entry.server}/{entry.model}",
                table=self._version,
            )
        return None

    def tool_run(self, name: str) -> Cost | None:
        """What one run of a tool costs; None: no entry is for it."""
        for pattern, usd in self._config.tools.items():
            if fnmatchcase(name.lower(), pattern.lower()):
                return Cost(
                    amount_usd=usd,
                    by_class_usd={"tool": usd},
                    source="config",
                    priced_as=pattern,
                    table=self._version,
                )
        return None

    def _entries(self, call: Call, day: int) -> list[ModelPrice]:
        today = instant(day).date()
        return [e for e in self._config.prices if _holds(e, today) and _is_for(e, call)]


def _holds(entry: ModelPrice, today: date) -> bool:
    return (entry.from_ is None or entry.from_ <= today) and (entry.until is None or today < entry.until)


def _is_for(entry: ModelPrice, call: Call) -> bool:
    providers, models = provider_spellings(call.provider), model_spellings(call.model or "")
    return matches(entry.provider, providers) and matches(entry.model, models)


def _runs(entry: SelfHosted, call: Call) -> bool:
    return matches(entry.server, server_spellings(call.server)) and matches(
        entry.model, model_spellings(call.model or "")
    )


def _price(entry: ModelPrice, version: str) -> Price:
    tokens_in, tokens_out = per_million(entry.input or Decimal(0)), per_million(entry.output or Decimal(0))
    write = tokens_in if entry.cache_write is None else per_million(entry.cache_write)
    rates = Rates(
        input=tokens_in,
        cache_read=tokens_in if entry.cache_read is None else per_million(entry.cache_read),
        cache_write=write,
        cache_write_1h=write if entry.cache_write_1h is None else per_million(entry.cache_write_1h),
        output=tokens_out,
        reasoning=tokens_out if entry.reasoning is None else per_million(entry.reasoning),
        media={
            name: per_million(given) if given is not None else text
            for name, given, text in (
                ("input_audio", entry.input_audio, tokens_in),
                ("input_image", entry.input_image, tokens_in),
                ("output_audio", entry.output_audio, tokens_out),
                ("output_image", entry.output_image, tokens_out),
            )
        },
    )
    return Price(source="config", priced_as=f"{entry.provider}/{entry.model}", table=version, steps=(rates,))
