"""What a model charges, and the one multiplication of usage by rates. Exact: nothing is rounded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from agentprof.model import Cost, Usage
from agentprof.money import EXACT

ZERO = Decimal(0)

_KINDS = {
    "file_search": "storage_search",
    "file_search_call": "storage_search",
    "google_search": "web_search",
    "search": "web_search",
    "web_search_call": "web_search",
    "web_search_preview": "web_search",
    "web_search_requests": "web_search",
    "bash_code_execution": "code_execution",
    "code_execution_requests": "code_execution",
    "code_interpreter": "code_execution",
    "code_interpreter_call": "code_execution",
    "text_editor_code_execution": "code_execution",
    "tool_search_tool_bm25": "tool_search",
    "tool_search_tool_regex": "tool_search",
    "x_search": "social_search",
}

FREE_TOOLS = frozenset({"mcp", "tool_search", "web_fetch"})
"""Kinds for which providers take nothing beyond the tokens; a table that knows better wins."""


def tool_kind(kind: str) -> str:
    """One name for a kind of server-side tool that providers name differently."""
    return _KINDS.get(kind, kind)


def per_million(usd: Decimal) -> Decimal:
    """USD per token from USD per million tokens."""
    return usd.scaleb(-6, EXACT)


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """USD per token of each exclusive class, per request, and per use of a server-side tool."""

    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    output: Decimal
    reasoning: Decimal
    request: Decimal = ZERO
    server_tools: Mapping[str, Decimal] = {}
    """By kind as `tool_kind` spells it."""
    media: Mapping[str, Decimal] = {}
    """Of `MEDIA`; what is absent has no price."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one entry at one time; they may step up with the size of the input."""

    source: str
    """`table` or `config`."""
    priced_as: str
    table: str
    """Version of the table or configuration."""
    steps: tuple[Rates, ...]
    """One more than `starts`."""
    starts: tuple[int, ...] = ()
    """Rising token counts: an input larger than the nth has the rates of step n + 1, for all its tokens."""

    def rates(self, input_tokens: int | None) -> Rates:
        """The rates for an input of this size, the lowest step where it is not known."""
        return self.steps[bisect_left(self.starts, input_tokens or 0)]


def cost_of(usage: Usage, price: Price, tool_rates: Mapping[str, Decimal]) -> Cost:
    """The cost of one answered call. A missing count is left out and named, unless it costs nothing.

    Args:
        usage: What the provider counted.
        price: The price of its tokens.
        tool_rates: USD per use of each server-side tool whose price is known, by kind as in the usage.
    """
    rates = price.rates(usage.input)
    classes: dict[str, Decimal] = {}
    unpriced: list[str] = []

    if usage.billed_input is not None:
        _add(classes, "input", usage.billed_input, rates.input)
    elif usage.input is not None:
        kept_1h = usage.cache_write_1h or 0
        kept = max((usage.cache_write or 0) - kept_1h, 0)
        read = usage.cache_read or 0
        fresh = usage.input - read - kept - kept_1h
        if usage.media:
            fresh -= _add_media(classes, usage, rates, "input_", fresh)
        _add(classes, "input", fresh, rates.input)
        if read or kept or kept_1h:
            _add(classes, "cache_read", read, rates.cache_read)
            _add(classes, "cache_write", kept, rates.cache_write)
            _add(classes, "cache_write_1h", kept_1h, rates.cache_write_1h)
    if usage.billed_output is not None:
        _add(classes, "output", usage.billed_output, rates.output)
    elif usage.output is not None:
        reasoning = min(usage.reasoning or 0, usage.output)
        said = usage.output - reasoning
        if usage.media:
            said -= _add_media(classes, usage, rates, "output_", said)
        _add(classes, "output", said, rates.output)
        if reasoning:
            _add(classes, "output", reasoning, rates.reasoning)
    if (usage.input is None and rates.input) or (usage.output is None and rates.output):
        unpriced.append("no_usage")
    if usage.media and not usage.media.keys() <= rates.media.keys():
        unpriced.append("unknown_model")
    if rates.request:
        _add(classes, "request", 1, rates.request)
    for kind, uses in usage.server_tools.items():
        if kind in tool_rates:
            _add(classes, "server_tools", uses, tool_rates[kind])
        elif uses and "unknown_server_tool" not in unpriced:
            unpriced.append("unknown_server_tool")

    return Cost(
        amount_usd=total(classes),
        by_class_usd=classes,
        source=price.source,
        priced_as=price.priced_as,
        table=price.table,
        unpriced=tuple(unpriced),
    )


def _add_media(classes: dict[str, Decimal], usage: Usage, rates: Rates, direction: str, tokens: int) -> int:
    """Add the sound and images among some tokens at prices of their own; gives how many of the tokens they are."""
    taken = 0
    for name, count in usage.media.items():
        if name.startswith(direction):
            count = max(min(count, tokens - taken), 0)
            taken += count
            _add(classes, name, count, rates.media.get(name, ZERO))
    return taken


def total(classes: Mapping[str, Decimal]) -> Decimal:
    """The exact sum of the parts of a cost."""
    amount = ZERO
    for part in classes.values():
        amount = EXACT.add(amount, part) if amount else part
    return amount


def _add(classes: dict[str, Decimal], name: str, count: int, rate: Decimal) -> None:
    if count > 0:
        amount = EXACT.multiply(rate, Decimal(count)) or ZERO
        before = classes.get(name)
        classes[name] = amount if before is None else EXACT.add(before, amount)
