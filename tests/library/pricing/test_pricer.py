"""What a span costs: which source wins, and what is missing."""

from __future__ import annotations

import sys
from decimal import Decimal

import msgspec
import pytest
from support.priced_calls import START_NS, a_call, cost

from agentprof.config import Config, ModelPrice
from agentprof.model import Call, Cost, Span, Usage
from agentprof.pricing import Pricer

TABLE = Pricer().table_version


def test_tokens_are_priced_from_the_table_by_exclusive_class() -> None:
    """Cached input is not charged twice, and the parts sum to the amount exactly."""
    found = cost(a_call(Usage(input=1999, output=300, cache_read=1792)))
    assert found == Cost(
        amount_usd=Decimal("0.00034545"),
        by_class_usd={
            "input": Decimal("0.00003105"),
            "cache_read": Decimal("0.0001344"),
            "output": Decimal("0.00018"),
        },
        source="table",
        priced_as="openai/gpt-4o-mini",
        table=TABLE,
    )


def test_reasoning_is_part_of_output() -> None:
    """1970 output tokens of which 956 reason cost 1970 tokens."""
    found = cost(a_call(Usage(input=0, output=1970, reasoning=956), model="o3"))
    assert found.amount_usd == Decimal(1970) * 8 / 10**6
    assert found.by_class_usd == {"output": Decimal("0.01576")}


def test_a_call_of_nothing_but_cached_input_is_not_overpriced() -> None:
    """3 new, 25 written, 13,216 read and 12 output tokens each at their own price."""
    found = cost(
        a_call(
            Usage(input=13_244, cache_write=25, cache_read=13_216, output=12),
            provider="aws.bedrock",
            model="us.anthropic.claude-sonnet-4-20250514-v1:0",
        )
    )
    parts = {"input": Decimal(9), "cache_write": Decimal("3.75") * 25, "cache_read": Decimal("0.3") * 13_216}
    expected = {name: part / Decimal(10**6) for name, part in parts.items()} | {"output": Decimal("0.00018")}
    assert found.by_class_usd == expected


def test_one_hour_cache_writes_cost_their_own_price() -> None:
    """Of 1000 tokens written 400 are kept for an hour, at twice the price of input."""
    found = cost(
        a_call(
            Usage(input=1500, output=0, cache_write=1000, cache_write_1h=400),
            provider="anthropic",
            model="claude-sonnet-4-5-20250929",
        )
    )
    assert found.by_class_usd == {
        "input": Decimal(500) * 3 / 10**6,
        "cache_write": Decimal(600) * Decimal("3.75") / 10**6,
        "cache_write_1h": Decimal(400) * 6 / 10**6,
    }


def test_one_hour_writes_without_an_own_price_cost_what_other_writes_cost() -> None:
    """The table's rule: a class it does not price is charged as the class it is part of."""
    found = cost(
        a_call(
            Usage(input=1000, output=0, cache_write=1000, cache_write_1h=1000),
            provider="aws.bedrock",
            model="us.anthropic.claude-sonnet-4-20250514-v1:0",
        )
    )
    assert found.by_class_usd == {"cache_write_1h": Decimal("0.00375")}


@pytest.mark.parametrize(
    ("provider", "model", "kind", "usd"),
    [
        ("anthropic", "claude-sonnet-4-5", "web_search", "0.03"),
        ("openai", "gpt-4.1", "web_search_call", "0.03"),
        ("openai", "gpt-4.1", "file_search", "0.0075"),
        ("gcp.gemini", "gemini-2.5-flash", "google_search", "0.105"),
    ],
)
def test_server_side_tools_are_priced_where_the_table_has_them(
    provider: str, model: str, kind: str, usd: str
) -> None:
    """Three uses cost three times the price of one, beside the tokens."""
    found = cost(a_call(Usage(input=0, output=0, server_tools={kind: 3}), provider=provider, model=model))
    assert found.by_class_usd == {"server_tools": Decimal(usd)}
    assert found.amount_usd == Decimal(usd)
    assert found.unpriced == ()


@pytest.mark.parametrize("kind", ["web_fetch", "tool_search_tool_bm25", "tool_search_tool_regex", "mcp"])
def test_server_side_tools_that_cost_nothing_beyond_their_tokens(kind: str) -> None:
    """They leave nothing out of the cost."""
    usage = Usage(input=1000, output=0, server_tools={kind: 3})
    found = cost(a_call(usage, provider="anthropic", model="claude-sonnet-4-5"))
    assert (found.amount_usd, found.unpriced) == (Decimal("0.003"), ())


def test_a_fast_answer_has_its_own_price() -> None:
    """Anthropic answers some models faster for more."""
    usage = Usage(input=1000, output=1000)
    plain = cost(a_call(usage, provider="anthropic", model="claude-opus-4-8", tier="standard"))
    fast = cost(a_call(usage, provider="anthropic", model="claude-opus-4-8", tier="fast"))
    assert (plain.amount_usd, fast.amount_usd) == (Decimal("0.03"), Decimal("0.06"))


def test_bedrock_names_where_a_model_runs() -> None:
    """The name that was asked for tells it, the name of the answer does not."""
    usage = Usage(input=1000, output=0, cache_write=1000, cache_write_1h=400)
    call = a_call(usage, provider="aws.bedrock", model="claude-sonnet-4-5-20250929")
    assert call.call is not None
    asked = "global.anthropic.claude-sonnet-4-5-20250929-v1:0"
    everywhere = msgspec.structs.replace(call, call=msgspec.structs.replace(call.call, request_model=asked))
    assert cost(call).amount_usd == (600 * Decimal("4.125") + 400 * Decimal("6.6")) / 10**6
    assert cost(everywhere).amount_usd == (600 * Decimal("3.75") + 400 * Decimal(6)) / 10**6


def test_a_server_side_tool_without_a_price_is_named_and_the_rest_priced() -> None:
    """Web searches and tokens have prices, code runs have none: the amount is a lower bound that says so."""
    usage = Usage(input=100, output=0, server_tools={"web_search": 1, "code_execution": 2})
    found = cost(a_call(usage, provider="anthropic", model="claude-sonnet-4-5"))
    assert found.amount_usd == Decimal("0.0003") + Decimal("0.01")
    assert found.unpriced == ("unknown_server_tool",)


def test_the_fee_of_a_request_is_a_class_of_its_own() -> None:
    """Sonar charges by the request beside its tokens."""
    found = cost(a_call(Usage(input=1000, output=1000), provider="perplexity", model="sonar"))
    assert found.by_class_usd == {
        "input": Decimal("0.001"),
        "output": Decimal("0.001"),
        "request": Decimal("0.012"),
    }


def test_the_service_tier_chooses_the_price() -> None:
    """A flex call costs half of a standard one."""
    usage = Usage(input=10_000, output=1000)
    standard, flex = (cost(a_call(usage, model="o3", tier=tier)).amount_usd for tier in ("default", "flex"))
    assert standard == Decimal("0.028")
    assert flex == Decimal("0.014")


def test_an_unknown_model_is_not_priced() -> None:
    """The amount is absent, never 0, and the table that was asked is named."""
    usage = Usage(input=100, output=100)
    assert cost(a_call(usage, model="gpt-nobody-knows")) == Cost(unpriced=("unknown_model",), table=TABLE)
    assert cost(a_call(usage, model=None)) == Cost(unpriced=("unknown_model",), table=TABLE)
    assert cost(a_call(usage, provider="vllm")) == Cost(unpriced=("unknown_model",), table=TABLE)


def test_an_answer_without_usage_is_not_priced() -> None:
    """Neither no usage at all nor usage without counts becomes 0."""
    assert cost(a_call()) == Cost(unpriced=("no_usage",))
    assert cost(a_call(Usage(reasoning=5))) == Cost(unpriced=("no_usage",))


def test_half_a_usage_gives_a_lower_bound() -> None:
    """Output that was never counted is missing from the amount, and named."""
    found = cost(a_call(Usage(input=1000)))
    assert found.amount_usd == Decimal("0.00015")
    assert found.unpriced == ("no_usage",)


def test_an_embedding_needs_no_output_count() -> None:
    """Where output costs nothing nothing is missing."""
    found = cost(a_call(Usage(input=1000), model="text-embedding-3-small"))
    assert found.amount_usd == Decimal("0.00002")
    assert found.unpriced == ()


def test_more_cached_tokens_than_input_never_make_a_negative_part() -> None:
    """A contradiction costs its cached tokens and no less."""
    found = cost(a_call(Usage(input=10, cache_read=1000, output=0)))
    assert found.by_class_usd == {"cache_read": Decimal("0.000075")}


def test_what_the_provider_charged_wins() -> None:
    """A reported cost is kept as it is, over own prices and the table."""
    config = Config(prices=(ModelPrice(model="*mini", input=Decimal(1), output=Decimal(1)),))
    found = cost(a_call(Usage(input=10, output=10), charged="0.0123"), config)
    assert found == Cost(
        amount_usd=Decimal("0.0123"), by_class_usd={"reported": Decimal("0.0123")}, source="reported"
    )


def test_a_cost_that_is_there_is_left_alone() -> None:
    """A span is priced once, with or without an amount, and other spans not at all."""
    pricer = Pricer()
    for given in (Cost(amount_usd=Decimal(1), source="given"), Cost(unpriced=("unknown_model",))):
        call = Call(model="gpt-4o-mini", provider="openai", usage=Usage(input=1, output=1), cost=given)
        span = Span(trace_id="a", span_id="b", start_ns=START_NS, call=call)
        assert pricer.price(span) is span
    step = Span(trace_id="a", span_id="b", start_ns=START_NS, kind="step")
    assert pricer.price(step) is step


def test_without_the_table_a_call_stays_open_for_whoever_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not installed is not unknown: no cost is set, but own prices, reports and refusals still count."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "genai_prices"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    pricer = Pricer(Config(prices=(ModelPrice(model="own", input=Decimal(1), output=Decimal(1)),)))
    usage = Usage(input=1000, output=0)
    assert pricer.table_version is None
    span = a_call(usage)
    assert pricer.price(span) is span
    for other, expected in (
        (a_call(usage, model="own"), Decimal("0.001")),
        (a_call(usage, charged="0.5"), Decimal("0.5")),
        (a_call(error=True, failed=("400",)), Decimal(0)),
    ):
        call = pricer.price(other).call
        assert call is not None
        assert call.cost is not None
        assert call.cost.amount_usd == expected


def test_an_older_table_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without what is read here prices nothing, and raises nothing."""
    monkeypatch.delattr("genai_prices.types.PriceVariant")
    pricer = Pricer()
    assert pricer.table_version is None
    span = a_call(Usage(input=1, output=1))
    assert pricer.price(span) is span


def test_times_no_calendar_has_are_priced_all_the_same() -> None:
    """A start of 0 or beyond the year 9999 raises nothing."""
    for start_ns in (0, -1, 10**30):
        assert cost(a_call(Usage(input=1000, output=0), start_ns=start_ns)).source == "table"
