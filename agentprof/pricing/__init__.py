"""Prices a span: what a call or a tool run cost, how that is known, and what is missing from it; and its energy.

The order in which a price is looked for: what the provider says it charged, agentprof.yaml, the table of
genai-prices. Money is exact: tokens times rate, nothing rounded.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from agentprof._hosts import is_private
from agentprof.config import Config
from agentprof.energy.of_calls import CallEnergy
from agentprof.model import Call, Cost, Span, Usage
from agentprof.pricing.failures import cost_without_usage
from agentprof.pricing.names import is_hosted_only
from agentprof.pricing.own import OwnPrices
from agentprof.pricing.rates import FREE_TOOLS, ZERO, Price, cost_of, tool_kind
from agentprof.pricing.table import PriceTable, load_table

__all__ = ["Pricer"]


class Pricer:
    """Fills in cost and energy of spans. Has no state but what it has looked up; may be used from any thread.

    The table of genai-prices is imported when a span first needs it, which takes some tenths of a second:
    let that happen on a thread nobody waits for. The same holds of ecologits.

    Args:
        config: Prices and rates of energy of one's own.
        formula: Whether energy may be estimated by EcoLogits' formula: not by who hands spans on, as the next
            reader may have better rates.
    """

    def __init__(self, config: Config | None = None, *, formula: bool = True) -> None:
        config = config if config is not None else Config()
        self._own = OwnPrices(config)
        self._energy = CallEnergy(config, formula=formula)
        self._loaded: PriceTable | None = None
        self._installed = True

    @property
    def table_version(self) -> str | None:
        """Name and version of the installed price table; None: there is none. Imports it."""
        table = self._table()
        return None if table is None else table.version

    @property
    def has_energy_rates(self) -> bool:
        """Whether the configuration says anything about energy."""
        return self._energy.has_rates

    def price(self, span: Span) -> Span:
        """The span with the cost of its call or tool run, if it had none yet and one can be given; so its energy.

        A call stays without a cost only where no price table is installed and nothing else prices it:
        whoever reads the span next may have one. A price that is asked for and missing is a `Cost` without
        amount that says why. A tool run has a cost only where agentprof.yaml gives one.
        """
        if span.call is not None:
            call = span.call
            cost = self._call(span, call) if call.cost is None else call.cost
            energy = self._energy.of(span, call) if call.energy is None else call.energy
            if cost is call.cost and energy is call.energy:
                return span
            return replace(span, call=replace(call, cost=cost, energy=energy))
        if span.tool is not None and span.tool.cost is None:
            cost = self._own.tool_run(span.title)
            return span if cost is None else replace(span, tool=replace(span.tool, cost=cost))
        return span

    def _call(self, span: Span, call: Call) -> Cost | None:
        charged = call.reported_cost_usd
        if charged is not None:
            return Cost(amount_usd=charged, by_class_usd={"reported": charged}, source="reported")
        usage = call.usage
        own = self._own.tokens(call, span.start_ns)
        if own is None:
            machine = self._own.machine_time(span, call)
            if machine is not None:
                return machine
        if usage is None or (usage.input is None and usage.output is None and not usage.server_tools):
            return cost_without_usage(span)
        price = own or self._listed(span, call)
        if price is not None:
            tool_rates = self._tool_rates(span, call, usage, price) if usage.server_tools else {}
            return cost_of(usage, price, tool_rates)
        version = self.table_version
        return None if version is None else Cost(unpriced=("unknown_model",), table=version)

    def _listed(self, span: Span, call: Call) -> Price | None:
        table = self._table()
        if table is None or call.model is None:
            return None
        if call.provider is None and _is_own_machine(call.server) and not is_hosted_only(call.model):
            return None
        # On Bedrock the name that was asked for says where the model runs, and that has a price of its own.
        model = call.request_model if (call.request_model or "").startswith("global.") else call.model
        return table.price(call.provider, model or call.model, call.service_tier, span.start_ns)

    def _tool_rates(self, span: Span, call: Call, usage: Usage, price: Price) -> dict[str, Decimal]:
        """USD per use of each server-side tool that has a price, agentprof.yaml before the table."""
        rates: dict[str, Decimal] = {}
        for kind in usage.server_tools:
            rate = self._own.server_tool(call, span.start_ns, kind)
            if rate is None:
                listed = price if price.source == "table" else self._listed(span, call)
                rate = listed.rates(usage.input).server_tools.get(tool_kind(kind)) if listed else None
            if rate is None and tool_kind(kind) in FREE_TOOLS:
                rate = ZERO
            if rate is not None:
                rates[kind] = rate
        return rates

    def _table(self) -> PriceTable | None:
        if self._installed:
            self._loaded = load_table(self._loaded)
            self._installed = self._loaded is not None
        return self._loaded


def _is_own_machine(server: str | None) -> bool:
    host, _, port = (server or "").rpartition(":")
    return is_private(host if host and port.isdigit() else server or "")
