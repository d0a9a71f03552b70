"""Tokens of sound and images: prices of their own, or named as missing; never those of text in silence."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import genai_prices
import msgspec
import pytest
from support.spans import TASK, call, task

from agentprof import attributes
from agentprof.config import Config, ModelPrice
from agentprof.dialects import Answer, dialect_of
from agentprof.model import MEDIA, RawSpan, Span, Usage
from agentprof.pricing import Pricer
from agentprof.pricing.rates import cost_of
from agentprof.pricing.table import load_table
from agentprof.rollup import roll_up
from agentprof.vocabularies import normalise

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NS = int(NOW.timestamp() * 10**9)

AUDIO_CHAT: dict[str, Any] = {
    "id": "c",
    "model": "gpt-audio",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant"}}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 60, "text_tokens": 40},
        "completion_tokens_details": {"audio_tokens": 45, "reasoning_tokens": 0},
    },
}


def read(path: str, body: dict[str, Any]) -> Usage:
    dialect = dialect_of(path)
    assert dialect is not None
    answer = Answer()
    dialect.read_body(msgspec.json.encode(body), answer)
    assert answer.usage is not None
    return answer.usage


def priced(model: str, usage: Usage, config: Config | None = None, provider: str | None = "openai") -> Span:
    return Pricer(config).price(call("c", NS, NS + 1, model=model, provider=provider, usage=usage))


def test_the_table_has_prices_of_media_and_they_are_used() -> None:
    """For every entry with such a price the sum is the one genai-prices calculates."""
    table = load_table()
    assert table is not None
    rng = random.Random(5)
    compared = 0
    for provider in table.snapshot.providers:
        for model in provider.models:
            price = table.price(provider.id, model.id, None, NS) if model.is_match(model.id) else None
            if price is None or set(price.steps[0].media) != set(MEDIA):
                continue
            usage = Usage(
                input=rng.randint(2000, 9000),
                output=rng.randint(2000, 9000),
                media={name: rng.randint(1, 1000) for name in MEDIA},
            )
            tokens = {f"{name}_tokens": count for name, count in usage.media.items()}
            expected = genai_prices.calc_price(
                genai_prices.Usage(input_tokens=usage.input, output_tokens=usage.output, **tokens),
                model.id,
                provider_id=provider.id,
                genai_request_timestamp=NOW,
            )
            found = cost_of(usage, price, {})
            assert found.amount_usd == expected.total_price, (provider.id, model.id)
            assert sum(found.by_class_usd.values(), Decimal(0)) == found.amount_usd
            assert found.unpriced == ()
            compared += 1
    assert compared >= 5


def test_sound_of_a_chat() -> None:
    """What the answer counts apart is priced apart."""
    usage = read("/chat/completions", AUDIO_CHAT)
    assert usage.media == {"input_audio": 60, "output_audio": 45}
    cost = priced("gpt-audio", usage).call.cost  # type: ignore[union-attr]
    assert cost is not None
    assert cost.by_class_usd == {
        "input": 40 * Decimal("2.5e-6"),
        "input_audio": 60 * Decimal("32e-6"),
        "output": 5 * Decimal("10e-6"),
        "output_audio": 45 * Decimal("64e-6"),
    }


def test_an_image_from_an_image() -> None:
    """The entry has a price of images in the input; those made cost what its output does."""
    usage = read(
        "/images/edits",
        {
            "created": 1,
            "data": [],
            "usage": {
                "input_tokens": 50,
                "output_tokens": 1000,
                "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
                "output_tokens_details": {"image_tokens": 1000, "text_tokens": 0},
            },
        },
    )
    cost = priced("gpt-image-1", usage).call.cost  # type: ignore[union-attr]
    assert cost is not None
    assert cost.by_class_usd == {
        "input": 10 * Decimal("5e-6"),
        "input_image": 40 * Decimal("10e-6"),
        "output_image": 1000 * Decimal("40e-6"),
    }
    assert cost.unpriced == ()


def test_sound_without_a_price_is_not_text() -> None:
    """It is left out and named; the summary warns."""
    usage = msgspec.structs.replace(read("/chat/completions", AUDIO_CHAT), cache_read=0)
    span = priced("gpt-4o-mini", usage)
    assert span.call is not None
    assert span.call.cost is not None
    text_only = priced("gpt-4o-mini", Usage(input=40, output=5)).call
    assert text_only is not None
    assert text_only.cost is not None
    assert span.call.cost.amount_usd == text_only.cost.amount_usd
    assert span.call.cost.unpriced == ("unknown_model",)
    summary = roll_up(TASK, [task("root", NS, NS + 9), msgspec.structs.replace(span, parent_id="root")])
    assert (summary.cost_complete, summary.unpriced["unknown_model"]) == (False, 1)
    assert [(warning.code, warning.count) for warning in summary.warnings] == [("media_unpriced", 1)]


def test_prices_of_ones_own() -> None:
    """Each class that is not named costs what input or output does."""
    entry = ModelPrice(
        provider="*",
        model="ours",
        input=Decimal(1),
        output=Decimal(2),
        input_audio=Decimal(7),
        output_image=Decimal(9),
    )
    usage = Usage(input=1000, output=1000, media=dict.fromkeys(MEDIA, 100))
    cost = priced("ours", usage, Config(prices=(entry,))).call.cost  # type: ignore[union-attr]
    assert cost is not None
    micro = Decimal("1e-6")
    assert cost.by_class_usd == {
        "input": 800 * micro,
        "input_audio": 700 * micro,
        "input_image": 100 * micro,
        "output": 1600 * micro,
        "output_audio": 200 * micro,
        "output_image": 900 * micro,
    }


def test_more_media_than_tokens() -> None:
    """A part is never more than what it is a part of, less what was cached."""
    usage = Usage(input=100, output=10, cache_read=70, media={"input_audio": 90, "output_audio": 99})
    cost = priced("gpt-audio", usage).call.cost  # type: ignore[union-attr]
    assert cost is not None
    assert cost.by_class_usd["input_audio"] == 30 * Decimal("32e-6")
    assert cost.by_class_usd["output_audio"] == 10 * Decimal("64e-6")
    assert "input" not in cost.by_class_usd


@pytest.mark.parametrize(
    "said",
    [
        {attributes.MEDIA_TOKENS + "input_audio": 60, attributes.OPERATION: "chat"},
        {"llm.token_count.prompt_details.audio": 60, "openinference.span.kind": "LLM"},
    ],
)
def test_spans_that_count_media(said: dict[str, Any]) -> None:
    """Our own, and those of OpenInference."""
    span = normalise(
        RawSpan(
            trace_id="1",
            span_id="2",
            start_ns=1,
            attributes={attributes.INPUT_TOKENS: 100, attributes.OUTPUT_TOKENS: 5} | said,
        )
    )
    assert span.call is not None
    assert span.call.usage is not None
    assert span.call.usage.media == {"input_audio": 60}


@pytest.mark.parametrize("provider", [None, "langchain"])
@pytest.mark.parametrize(
    ("model", "usd"), [("text-embedding-3-small", "0.02e-6"), ("text-embedding-3-large", "0.13e-6")]
)
def test_embeddings_of_a_provider_nobody_named(provider: str | None, model: str, usd: str) -> None:
    """The name of the model says whose it is, behind a gateway too."""
    for server in (None, "127.0.0.1:4000"):
        span = call("c", NS, NS + 1, model=model, provider=provider, server=server, usage=Usage(input=100))
        cost = Pricer().price(span).call.cost  # type: ignore[union-attr]
        assert cost is not None
        assert cost.amount_usd == 100 * Decimal(usd)
        assert cost.priced_as == f"openai/{model}"
