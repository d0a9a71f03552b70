"""What a span costs: which source wins, what is missing, and what costs nothing."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pytest

from agentprof.config import Config, ModelPrice, SelfHosted, parse_config
from agentprof.model import Call, Cost, FailedAttempt, Span, Tool, Usage
from agentprof.pricing import Pricer

DAY_NS = 86_400 * 10**9
START_NS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * 10**9
TABLE = Pricer().table_version


def a_call(
    usage: Usage | None = None,
    *,
    model: str | None = "gpt-4o-mini",
    provider: str | None = "openai",
    server: str | None = None,
    charged: str | None = None,
    tier: str | None = None,
    failed: tuple[str, ...] = (),
    error: bool = False,
    error_type: str | None = None,
    start_ns: int = START_NS,
    seconds: int | None = 2,
) -> Span:
    return Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        start_ns=start_ns,
        end_ns=None if seconds is None else start_ns + seconds * 10**9,
        kind="model",
        error=error,
        error_type=error_type,
        call=Call(
            model=model,
            provider=provider,
            server=server,
            usage=usage,
            service_tier=tier,
            reported_cost_usd=None if charged is None else Decimal(charged),
            failed_attempts=tuple(
                FailedAttempt(duration_ns=10**8, backoff_ns=10**9, status=status) for status in failed
            ),
        ),
    )


def cost(span: Span, config: Config | None = None) -> Cost:
    priced = Pricer(config).price(span)
    assert priced.call is not None
    assert priced.call.cost is not None
    return priced.call.cost


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


def test_own_prices_win_over_the_table() -> None:
    """The first matching entry holds; classes without a price take that of the class they are part of."""
    config = parse_config(
        """
prices:
  - {provider: azure, model: gpt-4o*, input: 0.1, output: 0.3, cache_read: 0.01, reasoning: 0.6}
  - {model: gpt-4o*, input: 7, output: 7}
"""
    )
    usage = Usage(input=1000, output=100, cache_read=400, cache_write=200, reasoning=50)
    found = cost(a_call(usage, provider="azure.ai.openai", model="azure/gpt-4o"), config)
    assert found == Cost(
        amount_usd=Decimal("0.000109"),
        by_class_usd={
            "input": Decimal("0.00004"),
            "cache_read": Decimal("0.000004"),
            "cache_write": Decimal("0.00002"),
            "output": Decimal("0.000045"),
        },
        source="config",
        priced_as="azure/gpt-4o*",
        table=config.version,
    )
    assert cost(a_call(Usage(input=1, output=1)), config).priced_as == "*/gpt-4o*"
    assert cost(a_call(Usage(input=1, output=1), model="o3"), config).source == "table"


def test_own_prices_hold_on_their_days() -> None:
    """`from` is the first day, `until` the first day after; outside the table is asked."""
    first, last = date(2026, 11, 20), date(2026, 11, 22)
    config = Config(
        prices=(
            ModelPrice(model="gpt-4o-mini", input=Decimal(1), output=Decimal(1), from_=first, until=last),
        )
    )
    midnight_ns = START_NS - START_NS % DAY_NS
    times = (midnight_ns - 1, midnight_ns, midnight_ns + 2 * DAY_NS - 1, midnight_ns + 2 * DAY_NS)
    pricer = Pricer(config)
    priced = [pricer.price(a_call(Usage(input=1, output=1), start_ns=time)).call for time in times]
    assert [call and call.cost and call.cost.source for call in priced] == [
        "table",
        "config",
        "config",
        "table",
    ]


def test_own_prices_of_server_side_tools_go_beside_either_source_of_token_prices() -> None:
    """Only tool prices: added to the table's tokens. Only token prices: the table's tools are added."""
    usage = Usage(input=1000, output=0, server_tools={"web_search": 1, "code_interpreter": 2})
    tools = parse_config("prices: [{provider: openai, server_tools: {code_execution: 0.03}}]")
    found = cost(a_call(usage, model="gpt-4.1"), tools)
    assert (found.source, found.amount_usd, found.unpriced) == ("table", Decimal("0.072"), ())

    tokens = parse_config("prices: [{model: gpt-4.1, input: 1, output: 1}]")
    found = cost(a_call(usage, model="gpt-4.1"), tokens)
    assert (found.source, found.amount_usd, found.unpriced) == (
        "config",
        Decimal("0.011"),
        ("unknown_server_tool",),
    )


def test_a_call_on_an_own_machine_costs_its_share_of_the_time() -> None:
    """Nine seconds less one of back-off, on one of four slots of a machine at 3.60 an hour."""
    config = Config(self_hosted=(SelfHosted(server="gpu*.example", usd_per_hour=Decimal("3.60"), slots=4),))
    span = a_call(provider="vllm", model="smol", server="gpu1.example:8000", seconds=9, failed=("503",))
    found = cost(span, config)
    assert found == Cost(
        amount_usd=Decimal("0.002"),
        by_class_usd={"self_hosted": Decimal("0.002")},
        source="config",
        priced_as="gpu*.example/*",
        table=config.version,
    )
    elsewhere = a_call(Usage(input=1, output=1), provider="vllm", model="smol", server="other:8000")
    assert cost(elsewhere, config).unpriced == ("unknown_model",)
    unfinished = a_call(provider="vllm", model="smol", server="gpu1.example:8000", seconds=None)
    assert cost(unfinished, config).amount_usd is None


def test_time_that_does_not_divide_is_rounded_far_below_a_bill() -> None:
    """One nanosecond at one dollar an hour on seven slots is given to 15 decimals."""
    config = Config(self_hosted=(SelfHosted(model="smol", usd_per_hour=Decimal(1), slots=7),))
    assert cost(a_call(model="smol", seconds=1), config).amount_usd == Decimal("0.000039682539683")


@pytest.mark.parametrize(
    ("failed", "error_type"),
    [
        (("400",), None),
        (("429", "429", "429"), "RateLimitError"),
        ((), "400"),
        ((), "openai.RateLimitError"),
        ((), "BadRequestError"),
    ],
)
def test_a_refused_call_costs_nothing(failed: tuple[str, ...], error_type: str | None) -> None:
    """4xx answers are not billed: 0, with nothing missing."""
    span = a_call(failed=failed, error=True, error_type=error_type)
    assert cost(span) == Cost(amount_usd=Decimal(0))


def test_a_refused_attempt_before_an_answer_changes_nothing() -> None:
    """A 429 and then an answer cost the answer."""
    assert cost(a_call(Usage(input=1000, output=0), failed=("429",))).amount_usd == Decimal("0.00015")


@pytest.mark.parametrize("failed", [("timeout",), ("429", "timeout"), ("cut", "cancelled")])
def test_abandoned_attempts_are_neither_free_nor_counted_a_second_time(failed: tuple[str, ...]) -> None:
    """What was given up may be billed: no amount, and no reason beside the attempts themselves."""
    assert cost(a_call(failed=failed, error=True, error_type="APITimeoutError")) == Cost()


@pytest.mark.parametrize(
    ("failed", "error_type", "error"),
    [
        (("500",), "500", True),
        (("429", "502"), None, True),
        (("499",), None, True),
        ((), "APITimeoutError", True),
        ((), None, True),
        (("429",), None, False),
    ],
)
def test_other_failures_without_usage_are_not_known(
    failed: tuple[str, ...], error_type: str | None, error: bool
) -> None:
    """A server's error, an unnamed one, or an answer without usage is never taken for free."""
    assert cost(a_call(failed=failed, error=error, error_type=error_type)) == Cost(unpriced=("no_usage",))


def test_a_cost_that_is_there_is_left_alone() -> None:
    """A span is priced once, with or without an amount, and other spans not at all."""
    pricer = Pricer()
    for given in (Cost(amount_usd=Decimal(1), source="given"), Cost(unpriced=("unknown_model",))):
        call = Call(model="gpt-4o-mini", provider="openai", usage=Usage(input=1, output=1), cost=given)
        span = Span(trace_id="a", span_id="b", start_ns=START_NS, call=call)
        assert pricer.price(span) is span
    step = Span(trace_id="a", span_id="b", start_ns=START_NS, kind="step")
    assert pricer.price(step) is step


def test_a_tool_costs_what_the_configuration_says() -> None:
    """The first pattern that matches the tool's name holds; other tools have no cost."""
    config = parse_config("tools: {web_*: 0.005, '*': 0.1}")

    def priced(name: str, config: Config | None, given: Cost | None = None) -> Cost | None:
        span = Span(
            trace_id="a", span_id="b", start_ns=1, kind="tool", title=name, tool=Tool(call_id="c", cost=given)
        )
        tool = Pricer(config).price(span).tool
        assert tool is not None
        assert tool.call_id == "c"
        return tool.cost

    assert priced("Web_search", config) == Cost(
        amount_usd=Decimal("0.005"),
        by_class_usd={"tool": Decimal("0.005")},
        source="config",
        priced_as="web_*",
        table=config.version,
    )
    assert priced("shell", config) == Cost(
        amount_usd=Decimal("0.1"),
        by_class_usd={"tool": Decimal("0.1")},
        source="config",
        priced_as="*",
        table=config.version,
    )
    assert priced("shell", None) is None
    given = Cost(amount_usd=Decimal(2), source="given")
    assert priced("shell", config, given) == given


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
