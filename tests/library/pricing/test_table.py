"""Prices from genai-prices: equal to its own calculation, found under the names spans use."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

import genai_prices
import pytest
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from genai_prices.types import ModelInfo, Provider, TieredPrices
from hypothesis import given
from hypothesis import strategies as st

from agentprof.model import Cost, Usage
from agentprof.pricing.rates import cost_of
from agentprof.pricing.table import PriceTable, load_table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Days before and after known changes of prices, at times inside and outside off-peak hours.
TIMES = tuple(
    datetime.fromisoformat(text)
    for text in (
        "2023-03-01T12:00:00+00:00",
        "2025-02-07T00:29:59.999999+00:00",
        "2025-02-09T00:30:00+00:00",
        "2025-06-09T23:59:59+00:00",
        "2025-06-10T00:00:00+00:00",
        "2026-02-01T16:30:00+00:00",
        "2026-11-20T03:59:59+00:00",
        "2026-11-20T04:00:00+00:00",
    )
)


def ns(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1) * 1000


def table() -> PriceTable:
    loaded = load_table()
    assert loaded is not None
    return loaded


def entries() -> Iterator[tuple[Provider, ModelInfo]]:
    for provider in get_snapshot().providers:
        for model in provider.models:
            yield provider, model


def thresholds(model: ModelInfo) -> list[int]:
    prices = [part.prices for part in model.prices] if isinstance(model.prices, list) else [model.prices]
    tiers = [
        value.tiers for entry in prices for value in vars(entry).values() if isinstance(value, TieredPrices)
    ]
    return sorted({tier.start for steps in tiers for tier in steps})


def a_usage(rng: random.Random, size: int) -> Usage:
    read = rng.randint(0, size)
    write = rng.randint(0, size - read)
    output = rng.randint(0, 20_000)
    return Usage(
        input=size,
        output=output,
        cache_read=read,
        cache_write=write,
        cache_write_1h=rng.randint(0, write),
        reasoning=rng.randint(0, output),
    )


def calculated(
    usage: Usage, model: str, provider: str | None, time: datetime, tier: str | None = None
) -> Decimal:
    """The total that genai-prices itself gives."""
    context = None
    if tier is not None:
        context = {"processing": "batch"} if tier == "batch" else {"service_tier": tier}
    return genai_prices.calc_price(
        genai_prices.Usage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            cache_write_1h_tokens=usage.cache_write_1h,
            output_reasoning_tokens=usage.reasoning,
            web_searches=usage.server_tools.get("web_search"),
            storage_searches=usage.server_tools.get("file_search"),
        ),
        model,
        provider_id=provider,
        genai_request_timestamp=time,
        price_context=context,
    ).total_price


def ours(
    usage: Usage, model: str, provider: str | None, time: datetime, tier: str | None = None
) -> Cost | None:
    price = table_of_module().price(provider, model, tier, ns(time))
    if price is None:
        return None
    tools = price.rates(usage.input).server_tools
    kinds = {"web_search": "web_search", "file_search": "storage_search"}
    return cost_of(
        usage, price, {kind: tools[kinds[kind]] for kind in usage.server_tools if kinds[kind] in tools}
    )


_TABLE: list[PriceTable] = []


def table_of_module() -> PriceTable:
    if not _TABLE:
        _TABLE.append(table())
    return _TABLE[0]


def test_every_entry_costs_what_genai_prices_calculates() -> None:
    """For every entry, at sizes around its steps and times around its changes, the sums are equal."""
    rng = random.Random(20_261_130)
    compared = without_token_price = 0
    for provider, model in entries():
        if model.is_match(model.id) is False:
            continue
        sizes = [rng.randint(0, 60_000)] + [start + step for start in thresholds(model) for step in (0, 1)]
        for size in sizes:
            usage, time = a_usage(rng, size), rng.choice(TIMES)
            cost = ours(usage, model.id, provider.id, time)
            expected = calculated(usage, model.id, provider.id, time)
            if cost is None:
                assert expected == 0
                without_token_price += 1
                continue
            assert cost.amount_usd == expected, (provider.id, model.id, usage, time)
            assert sum(cost.by_class_usd.values(), Decimal(0)) == cost.amount_usd
            compared += 1
    assert compared > 2000
    assert without_token_price < compared / 10


@pytest.mark.parametrize("tier", ["default", "flex", "priority", "batch", "standard"])
def test_every_service_tier_costs_what_genai_prices_calculates(tier: str) -> None:
    """Where the table has prices of a service tier they are used, else the standard ones."""
    rng = random.Random(7)
    other = 0
    for provider, model in entries():
        if not model.price_variants or not model.is_match(model.id):
            continue
        usage, time = a_usage(rng, 50_000), TIMES[-1]
        cost = ours(usage, model.id, provider.id, time, tier)
        if cost is None:
            continue
        assert cost.amount_usd == calculated(usage, model.id, provider.id, time, tier)
        other += cost.amount_usd != calculated(usage, model.id, provider.id, time)
    assert other > 20 if tier in ("flex", "priority", "batch") else other == 0


@given(
    pair=st.sampled_from(
        [
            ("google", "gemini-2.5-pro"),
            ("anthropic", "claude-sonnet-4-5"),
            ("openai", "gpt-5.4"),
            ("openai", "o3"),
            ("deepseek", "deepseek-chat"),
            ("aws", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
            ("azure", "gpt-4o"),
            ("perplexity", "sonar-pro"),
            ("perplexity", "sonar-deep-research"),
            ("mistral", "mistral-large-latest"),
        ]
    ),
    size=st.integers(0, 2_000_000),
    seed=st.integers(0, 2**32),
    time=st.datetimes(datetime(2023, 1, 1), datetime(2027, 1, 1)),
    searches=st.integers(0, 50),
)
def test_any_usage_at_any_time_costs_what_genai_prices_calculates(
    pair: tuple[str, str], size: int, seed: int, time: datetime, searches: int
) -> None:
    """Sums are equal for any usage and time, of models with steps, dates, hours, tools and fees."""
    provider, model = pair
    usage = a_usage(random.Random(seed), size)
    usage = Usage(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cache_write_1h=usage.cache_write_1h,
        reasoning=usage.reasoning,
        server_tools={"web_search": searches},
    )
    time = time.replace(tzinfo=UTC)
    cost = ours(usage, model, provider, time)
    assert cost is not None
    assert cost.amount_usd == calculated(usage, model, provider, time)


def test_amounts_are_exact_whatever_decimal_context_the_program_has() -> None:
    """A program that computes with two digits gets the same amount."""
    usage = Usage(input=123_456_789, output=987_654)
    with localcontext() as context:
        context.prec = 2
        cost = ours(usage, "gpt-4o-mini", "openai", TIMES[-1])
    assert cost is not None
    assert cost.amount_usd == Decimal("123456789") * Decimal("0.00000015") + Decimal("987654") * Decimal(
        "0.0000006"
    )


@pytest.mark.parametrize(
    ("provider", "model", "priced_as"),
    [
        ("openai", "gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini"),
        ("openai", "gpt-4o-mini-2031-01-01", "openai/gpt-4o-mini"),
        ("openai", "openai/gpt-4o-mini", "openai/gpt-4o-mini"),
        ("OpenAI", "gpt-4o-mini", "openai/gpt-4o-mini"),
        ("azure.ai.openai", "gpt-4o", "openai/gpt-4o"),
        ("azure.ai.openai", "azure/gpt-4o-2024-08-06", "openai/gpt-4o"),
        ("azure.ai.openai", "gpt-5-mini-2025-08-07", "openai/gpt-5-mini"),
        (
            "aws.bedrock",
            "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-20250514-v1:0",
        ),
        (
            "gemini",
            "bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0",
            "aws/regional.anthropic.claude-sonnet-4-20250514-v1:0",
        ),
        ("gcp.gemini", "models/gemini-2.5-flash", "google/gemini-2.5-flash"),
        (
            "gcp.vertex_ai",
            "projects/p/locations/l/publishers/google/models/gemini-2.5-flash",
            "google/gemini-2.5-flash",
        ),
        ("google-gla", "gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("gcp.vertex_ai", "claude-sonnet-4@20250514", "google/claude-4-sonnet"),
        ("gcp.gen_ai", "gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("anthropic", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("mistral_ai", "mistral-large-2411", "mistral/mistral-large"),
        ("x_ai", "grok-4-0709", "x-ai/grok-4-0709"),
        ("moonshot_ai", "kimi-k2-0905-preview", "moonshotai/kimi-k2-0905-preview"),
        ("groq", "llama-3.3-70b-versatile", "groq/llama-3.3-70b-versatile"),
        ("openrouter", "openai/gpt-4o-mini", "openrouter/openai/gpt-4o-mini"),
        ("langchain", "gpt-4o-mini", "openai/gpt-4o-mini"),
        ("microsoft.agent_framework", "gpt-5-mini", "openai/gpt-5-mini"),
        (None, "gpt-4o-mini", "openai/gpt-4o-mini"),
        (None, "mistral/mistral-large-2411", "mistral/mistral-large"),
        (None, "openrouter/openai/gpt-4o-mini", "openrouter/openai/gpt-4o-mini"),
        ("litellm", "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
    ],
)
def test_names_on_spans_find_their_entry(provider: str | None, model: str, priced_as: str) -> None:
    """Providers and models are found under the spellings of conventions, frameworks and routes."""
    price = table_of_module().price(provider, model, None, ns(TIMES[-1]))
    assert price is not None
    assert price.priced_as == priced_as


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("vllm", "gpt-4o-mini"),
        ("llama.cpp", "gpt-4o-mini"),
        ("ollama", "deepseek-r1"),
        ("sglang", "gpt-oss-120b"),
        ("tgi", "mistral-large-latest"),
        ("openai", "ollama/gpt-oss-120b"),
        (None, "hosted_vllm/gpt-oss-120b"),
        ("openai", "mistral-medium-latest"),
        ("openai", "facebook/opt-125m"),
        ("langchain", "unknown"),
        (None, "meta-llama/Llama-3.1-8B-Instruct"),
        ("openai", "whisper-1"),
        ("openai", ""),
    ],
)
def test_models_with_no_price_there_are_not_priced(provider: str | None, model: str) -> None:
    """Own engines are never priced from a hosted table, nor a provider from another's, nor time as tokens."""
    assert table_of_module().price(provider, model, None, ns(TIMES[-1])) is None


def test_a_dated_price_holds_at_the_time_of_the_call() -> None:
    """o3 became cheaper on 10 June 2025: calls of the day before keep the old price."""
    usage = Usage(input=1_000_000, output=1_000_000)
    before = ours(usage, "o3", "openai", datetime(2025, 6, 9, 23, 59, 59, tzinfo=UTC))
    after = ours(usage, "o3", "openai", datetime(2025, 6, 10, tzinfo=UTC))
    assert before is not None
    assert before.amount_usd == 50
    assert after is not None
    assert after.amount_usd == 10


def test_the_cache_of_entries_does_not_grow_without_bound() -> None:
    """Ten thousand model names leave at most 4096 entries behind, and prices stay right."""
    fresh = table()
    for number in range(10_000):
        assert fresh.price("vllm", f"model-{number}", None, 0) is None
    assert len(fresh._days) <= 4096
    price = fresh.price("openai", "gpt-4o-mini", None, ns(TIMES[-1]))
    assert price is not None
    assert price.steps[0].input == Decimal("0.00000015")


def test_the_version_names_the_package_and_follows_its_updates() -> None:
    """An update of genai-prices is a new table with the time of the update in its version."""
    loaded = table()
    assert loaded.version == f"genai-prices {genai_prices.__version__}"
    assert load_table(loaded) is loaded
    updated = DataSnapshot(
        providers=get_snapshot().providers[:1],
        from_auto_update=True,
        timestamp=datetime(2026, 11, 1),
    )
    set_custom_snapshot(updated)
    try:
        newer = load_table(loaded)
        assert newer is not None
        assert newer.version == f"genai-prices {genai_prices.__version__} updated 2026-11-01T00:00:00"
        assert newer.price("openai", "gpt-4o-mini", None, ns(TIMES[-1])) is None
    finally:
        set_custom_snapshot(None)
