"""Prices of calls in formats of their own, worked out by hand from the lists of their providers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from agentprof import attributes as a
from agentprof._call_span import say_answer
from agentprof.dialects import Answer, dialect_of
from agentprof.model import Cost, RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up
from agentprof.vocabularies import normalise

NS = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 10**9)
GEMINI = "/v1beta/models/{}:generateContent"


def span_of(path: str, provider: str, model: str, body: dict[str, Any]) -> Span:
    """The priced span of an answer."""
    dialect = dialect_of(path)
    assert dialect is not None
    answer = Answer()
    dialect.read_body(msgspec.json.encode(body), answer)
    said: dict[str, Any] = {a.OPERATION: dialect.operation, a.PROVIDER: provider, a.REQUEST_MODEL: model}
    say_answer(said, answer)
    raw = RawSpan(trace_id="1" * 32, span_id="c", start_ns=NS, end_ns=NS + 1, kind=3, attributes=said)
    return Pricer().price(normalise(raw))


def cost_of(path: str, provider: str, model: str, body: dict[str, Any]) -> Cost:
    """The cost of an answer."""
    call = span_of(path, provider, model, body).call
    assert call is not None
    assert call.cost is not None
    return call.cost


def gemini(model: str, prompt: int, candidates: int, **more: Any) -> Cost:
    """The cost of an answer of Gemini with so many tokens."""
    candidate = more.pop("candidate", {})
    tools = more.get("toolUsePromptTokenCount", 0)
    thoughts = more.get("thoughtsTokenCount", 0)
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, **more}
    usage["totalTokenCount"] = prompt + candidates + thoughts + tools
    body = {"modelVersion": model, "candidates": [candidate], "usageMetadata": usage}
    return cost_of(GEMINI.format(model), "gcp.gemini", model, body)


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [
        (200_000, 0, "0.265"),  # 200,000 at 1.25 and 1,500 at 10 a million
        (200_001, 0, "0.5225025"),  # from one token more on all at 2.50 and 15
        (300_000, 100_000, "0.5475"),  # of them 100,000 from a cache at 0.25
        (150_000, 100_000, "0.09"),  # below, at 0.125
    ],
)
def test_the_context_steps_of_gemini(prompt: int, cached: int, expected: str) -> None:
    """Gemini 2.5 Pro: a prompt above 200,000 tokens makes all of the call dearer; thoughts are output."""
    found = gemini("gemini-2.5-pro", prompt, 500, thoughtsTokenCount=1000, cachedContentTokenCount=cached)
    assert found.amount_usd == Decimal(expected)
    assert found.priced_as == "google/gemini-2.5-pro"
    assert found.unpriced == ()


def test_sound_for_gemini() -> None:
    """Flash has a price of sound, Pro one for everything; images cost what text does."""
    details = [{"modality": "AUDIO", "tokenCount": 600}, {"modality": "IMAGE", "tokenCount": 400}]
    flash = gemini("gemini-2.5-flash", 1000, 100, promptTokensDetails=details)
    assert flash.amount_usd == Decimal("0.00097")  # 600 at 1, 400 at 0.30, 100 at 2.50
    pro = gemini("gemini-2.5-pro", 1000, 100, promptTokensDetails=details)
    assert pro.amount_usd == Decimal("0.00225")  # 1,000 at 1.25, 100 at 10
    assert flash.unpriced == pro.unpriced == ()


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gemini-2.5-flash", "0.035"), ("gemini-3-flash-preview", "0.042")],
)
def test_searches_of_gemini(model: str, expected: str) -> None:
    """By the request up to 2.5 (35 a thousand), by the query from 3 on (14 a thousand)."""
    grounding = {"groundingMetadata": {"webSearchQueries": ["a", "b", "c"]}}
    found = gemini(model, 0, 0, candidate=grounding)
    assert found.by_class_usd == {"server_tools": Decimal(expected)}


def test_tokens_that_tools_of_gemini_read() -> None:
    """They are input and billed as such."""
    found = gemini("gemini-2.5-flash", 10, 100, toolUsePromptTokenCount=990)
    assert found.amount_usd == Decimal("0.00055")  # 1,000 at 0.30, 100 at 2.50


def test_what_cohere_bills() -> None:
    """Not its own prompt, which the model reads too: billed units, whatever of the rest came from a cache."""
    usage = {
        "billed_units": {"input_tokens": 8, "output_tokens": 8},
        "tokens": {"input_tokens": 503, "output_tokens": 11},
        "cached_tokens": 448,
    }
    span = span_of("/v2/chat", "cohere", "command-r-08-2024", {"id": "i", "usage": usage})
    assert span.call is not None
    assert span.call.usage is not None
    assert (span.call.usage.input, span.call.usage.output, span.call.usage.cache_read) == (503, 11, 448)
    assert span.call.cost is not None
    assert span.call.cost.by_class_usd == {"input": Decimal("0.0000012"), "output": Decimal("0.0000048")}


def test_ollama_has_no_list_price() -> None:
    """It runs on a machine of one's own, whatever the name of the model."""
    body = {"model": "command-r", "done": True, "prompt_eval_count": 10, "eval_count": 5}
    found = cost_of("/api/chat", "ollama", "command-r", body)
    assert found.amount_usd is None
    assert found.unpriced == ("unknown_model",)


@pytest.mark.parametrize(("total", "warnings"), [(20, ["total_differs"]), (15, [])])
def test_counts_that_do_not_add_up(total: int, warnings: list[str]) -> None:
    """Are kept, and their difference from the provider's own total is a warning of the task."""
    body = {
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": total},
    }
    span = span_of(GEMINI.format("gemini-2.5-flash"), "gcp.gemini", "gemini-2.5-flash", body)
    found = roll_up("t", [span])
    assert (found.tokens["input"], found.tokens["output"]) == (10, 5)
    assert [warning.code for warning in found.warnings if warning.code != "no_root"] == warnings
