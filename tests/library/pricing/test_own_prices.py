"""What a span costs by the prices of the configuration: of tokens, time and tools."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from support.priced_calls import START_NS, a_call, cost

from agentprof.config import Config, ModelPrice, SelfHosted, parse_config
from agentprof.model import Cost, Span, Tool, Usage
from agentprof.pricing import Pricer

DAY_NS = 86_400 * 10**9


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
