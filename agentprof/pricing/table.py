"""genai-prices as rates: an entry is looked up and its rates resolved once, then only multiplied.

The package takes long to import and to calculate with, so it is imported here when a price is first needed
and asked for prices, never for sums. The sums equal those of its own `calc_price`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from agentprof.model import MEDIA
from agentprof.money import EXACT
from agentprof.pricing.days import NS_PER_DAY, instant, split
from agentprof.pricing.names import look_ups
from agentprof.pricing.rates import ZERO, Price, Rates, per_million

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider

_CACHED = 4096
"""Resolved entries kept; model names come from outside, so their number has no bound."""

_PLAIN_MEDIA = {"google": ("input_audio", "input_image")}
"""By provider: media that cost what text does where an entry has no price of theirs.
https://ai.google.dev/gemini-api/docs/pricing"""

_TOOLS = {
    "web_search": "web_searches_kcount",
    "social_search": "social_searches_kcount",
    "storage_search": "storage_searches_kcount",
    "code_execution": "code_executions_kcount",
}


class PriceTable:
    """The prices of one state of genai-prices."""

    def __init__(
        self, snapshot: DataSnapshot, version: str, latest: Callable[[], DataSnapshot] | None = None
    ) -> None:
        self.snapshot = snapshot
        self.version = version
        self._latest = latest
        self._days: dict[tuple[str | None, str, str | None, int], _Day | None] = {}

    @property
    def is_current(self) -> bool:
        """Whether genai-prices has nothing newer."""
        return self._latest is not None and self._latest() is self.snapshot

    def price(self, provider: str | None, model: str, tier: str | None, start_ns: int) -> Price | None:
        """The price of a model for a call that started then; None: the table has none."""
        day, ns = split(start_ns)
        key = (provider, model, tier, day)
        try:
            found = self._days[key]
        except KeyError:
            if len(self._days) >= _CACHED:
                self._days.clear()
            found = self._days[key] = self._day(provider, model, tier, day)
        return None if found is None else found.at(ns)

    def _day(self, provider: str | None, model: str, tier: str | None, day: int) -> _Day | None:
        for provider_name, ref in look_ups(provider, model):
            entry = self._entry(provider_name, ref)
            if entry is not None:
                if _is_batch(tier) and not _has_batch_price(*entry, day):
                    return None  # its other prices are not those of a batch
                return _resolve(*entry, _context(tier), day, self.version, self._owner(entry))
        return None

    def _entry(self, provider_name: str | None, ref: str) -> tuple[Provider, ModelInfo] | None:
        from genai_prices.data_snapshot import find_provider_by_id

        providers = self.snapshot.providers
        if provider_name is None:
            provider = next((p for p in providers if p.model_match and p.model_match.is_match(ref)), None)
        else:
            provider = find_provider_by_id(providers, provider_name)
        model = provider.find_model(ref, all_providers=providers) if provider is not None else None
        return None if provider is None or model is None else (provider, model)

    def _owner(self, entry: tuple[Provider, ModelInfo]) -> str:
        """The provider whose entry it is: some offer the models of another at its prices."""
        provider, model = entry
        owners = (p.id for p in self.snapshot.providers if any(m is model for m in p.models))
        return provider.id if any(m is model for m in provider.models) else next(owners, provider.id)


def load_table(loaded: PriceTable | None = None) -> PriceTable | None:
    """The table as it is now: `loaded` itself unless genai-prices has updated; None: it is not installed.

    A version before 0.2, which other packages may have brought, has another shape and counts as none.
    """
    if loaded is not None and loaded.is_current:
        return loaded
    try:
        from genai_prices import __version__
        from genai_prices.data_snapshot import get_snapshot
        from genai_prices.types import PriceVariant  # noqa: F401 (new in 0.2)
    except ImportError:
        return None
    snapshot = get_snapshot()
    updated = f" updated {snapshot.timestamp.isoformat()}" if snapshot.from_auto_update else ""
    return PriceTable(snapshot, f"genai-prices {__version__}{updated}", get_snapshot)


class _Day:
    """The prices of an entry on one day: one, or several where a price depends on the time of day."""

    def __init__(self, starts_ns: list[int], prices: list[Price]) -> None:
        self._starts_ns = starts_ns
        self._prices = prices

    def at(self, ns: int) -> Price:
        return self._prices[bisect_right(self._starts_ns, ns) - 1]


def _resolve(
    provider: Provider, model: ModelInfo, context: dict[str, str], day: int, version: str, owner: str
) -> _Day | None:
    if not any(model is m for m in provider.models):
        context = {}  # The variants of another provider's tiers are not offered here.
    starts_ns = _starts_ns(model)
    found = [
        price
        for ns in starts_ns
        if (price := _price(model.get_prices(instant(day, ns), context), f"{owner}/{model.id}", version))
    ]
    return _Day(starts_ns, found) if len(found) == len(starts_ns) else None


def _is_batch(tier: str | None) -> bool:
    return tier is not None and tier.lower() == "batch"


def _has_batch_price(provider: Provider, model: ModelInfo, day: int) -> bool:
    own = any(model is m for m in provider.models)
    return own and any(
        variant.when.get("processing") == "batch"
        and (variant.constraint is None or variant.constraint.active(instant(day)))
        for variant in model.price_variants or ()
    )


def _context(tier: str | None) -> dict[str, str]:
    """The request context by which the table selects variants of a price."""
    if not tier:
        return {}
    if _is_batch(tier):
        return {"processing": "batch"}
    name = tier.lower()
    return {"service_tier": name, "speed": name} if name == "fast" else {"service_tier": name}


def _starts_ns(model: ModelInfo) -> list[int]:
    """The times of day at which a price of the entry may begin or end, midnight among them."""
    from genai_prices.types import TimeOfDateConstraint

    parts = [*(model.prices if isinstance(model.prices, list) else ()), *(model.price_variants or ())]
    starts = {0}
    for part in parts:
        if isinstance(part.constraint, TimeOfDateConstraint):
            for time in (part.constraint.start_time, part.constraint.end_time):
                offset = time.utcoffset() or timedelta()
                since = timedelta(hours=time.hour, minutes=time.minute, seconds=time.second) - offset
                starts.add(since // timedelta(microseconds=1) * 1000 % NS_PER_DAY)
    return sorted(starts)


def _price(entry: ModelPrice, priced_as: str, version: str) -> Price | None:
    from genai_prices.types import TieredPrices

    given = {key: value for key, value in vars(entry).items() if value is not None}
    owner = priced_as.partition("/")[0]
    starts = sorted(
        {t.start for value in given.values() if isinstance(value, TieredPrices) for t in value.tiers}
    )

    def step(tokens: int) -> Rates | None:
        """The rates for an input of that many tokens."""
        flat: dict[str, Decimal] = {}
        for key, value in given.items():
            if isinstance(value, TieredPrices):
                reached = [tier.price for tier in value.tiers if tokens > tier.start]
                flat[key] = reached[-1] if reached else value.base
            else:
                flat[key] = value
        return _rates(flat, free=priced_as.endswith(":free"), plain_media=_PLAIN_MEDIA.get(owner, ()))

    steps = [step(0), *(step(start + 1) for start in starts)]
    found = tuple(rates for rates in steps if rates is not None)
    if len(found) != len(steps):
        return None
    return Price(source="table", priced_as=priced_as, table=version, steps=found, starts=tuple(starts))


def _rates(flat: dict[str, Decimal], *, free: bool, plain_media: Collection[str]) -> Rates | None:
    """A class without a price of its own is charged as the class it is part of; no output price: no charge.

    None where the entry has no price for tokens: by the minute or page, or none at all. An entry that is
    called free has none either, and means 0.
    """
    if "input_mtok" not in flat and not (free and not flat):
        return None
    per_token = {key: per_million(value) for key, value in flat.items() if key.endswith("_mtok")}
    tokens_in = per_token.get("input_mtok", ZERO)
    tokens_out = per_token.get("output_mtok", ZERO)
    write = per_token.get("cache_write_mtok", tokens_in)
    return Rates(
        input=tokens_in,
        cache_read=per_token.get("cache_read_mtok", tokens_in),
        cache_write=write,
        cache_write_1h=per_token.get("cache_write_1h_mtok", write),
        output=tokens_out,
        reasoning=per_token.get("output_reasoning_mtok", tokens_out),
        request=flat.get("requests_kcount", ZERO).scaleb(-3, EXACT),
        media=_media(flat, {"input": tokens_in, "output": tokens_out}, plain_media),
        server_tools={kind: flat[key].scaleb(-3, EXACT) for kind, key in _TOOLS.items() if key in flat},
    )


def _media(
    flat: Mapping[str, Decimal], text: Mapping[str, Decimal], plain: Collection[str]
) -> dict[str, Decimal]:
    """USD per token of sound and images. An entry with any price of a medium knows it: where it has none in one
    direction the medium costs there what text does. Of one without any nothing is known, but for `plain`."""
    found = {}
    for name in MEDIA:
        direction, _, medium = name.partition("_")
        own = flat.get(f"{name}_mtok")
        if own is not None:
            found[name] = per_million(own)
        elif name in plain or any(f"_{medium}_" in key for key in flat):
            found[name] = text[direction]
    return found
