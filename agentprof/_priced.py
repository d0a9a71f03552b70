"""Ended spans as they go out: calls and tools with what they cost. Runs on the export worker.

Everything that has a cost to be found is read by `normalise` and priced by `Pricer.price`. Reading all of a span
is most of that work, so our own answered calls, which are nearly all spans that have one, are read only as far
as a price depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import ReadableSpan

from agentprof import _runtime, attributes
from agentprof._readable import plain_attributes, to_raw
from agentprof.model import Call, Cost, Energy, Span, Usage
from agentprof.vocabularies import normalise

if TYPE_CHECKING:
    from agentprof.pricing import Pricer

_MODEL_OPERATIONS: Final = frozenset(("chat", "text_completion", "embeddings"))
_COUNTS: Final = {
    attributes.INPUT_TOKENS: "input",
    attributes.OUTPUT_TOKENS: "output",
    attributes.CACHE_READ_TOKENS: "cache_read",
    attributes.CACHE_WRITE_TOKENS: "cache_write",
    attributes.CACHE_WRITE_1H_TOKENS: "cache_write_1h",
    attributes.REASONING_TOKENS: "reasoning",
}

_WITH_CARE: Final = (attributes.SERVER_TOOLS, attributes.MEDIA_TOKENS)


class PricedSpan(ReadableSpan):
    """A span with more attributes than it ended with; everything else is that of the span."""

    def __init__(self, span: ReadableSpan, attributes: Mapping[str, Any]) -> None:
        super().__init__(
            name=span.name,
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=span.events,
            links=span.links,
            kind=span.kind,
            instrumentation_info=getattr(span, "_instrumentation_info", None),
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self._ended = span

    @property
    def dropped_attributes(self) -> int:
        return self._ended.dropped_attributes

    @property
    def dropped_events(self) -> int:
        return self._ended.dropped_events

    @property
    def dropped_links(self) -> int:
        return self._ended.dropped_links


def priced(span: ReadableSpan, pricer: Pricer) -> ReadableSpan:
    """The span with its cost; the same object if it has one already or none can be given."""
    said = plain_attributes(span)
    if not said:
        return span
    if pricer.has_energy_rates:
        return _with_energy(span, said, pricer)
    if attributes.COST in said or attributes.COST_UNPRICED in said:
        return span
    scope = span.instrumentation_scope
    if scope is not None and scope.name == _runtime.SCOPE and attributes.OPERATION not in said:
        return span  # of our own spans only calls and tools name an operation
    cost = _cost(span, said, pricer)
    if cost is None:
        return span
    added = cost_attributes(cost)
    return PricedSpan(span, {**said, **added}) if added else span


def _with_energy(span: ReadableSpan, said: Mapping[str, Any], pricer: Pricer) -> ReadableSpan:
    """The span with cost and energy; energy may depend on anything that is known of the call."""
    read = normalise(to_raw(span))
    found = pricer.price(read)
    holder = found.call or found.tool
    added: dict[str, Any] = {}
    if (
        holder is not None
        and holder.cost is not None
        and not {attributes.COST, attributes.COST_UNPRICED} & said.keys()
    ):
        added |= cost_attributes(holder.cost)
    if found.call is not None and found.call.energy is not None and attributes.ENERGY_LOW not in said:
        added |= energy_attributes(found.call.energy)
    return PricedSpan(span, {**said, **added}) if added else span


def energy_attributes(energy: Energy) -> dict[str, Any]:
    """Energy as attributes; `agentprof.vocabularies` reads the same from them."""
    said = {
        attributes.ENERGY_LOW: energy.low_uj / 1e6,
        attributes.ENERGY_HIGH: energy.high_uj / 1e6,
        attributes.ENERGY_SOURCE: energy.source,
        attributes.ENERGY_BOUNDARY: energy.boundary,
        attributes.ENERGY_COVERS: energy.covers,
    }
    return said if energy.basis is None else {**said, attributes.ENERGY_BASIS: energy.basis}


def cost_attributes(cost: Cost) -> dict[str, Any]:
    """A cost as attributes; `agentprof.vocabularies` reads the same cost from them."""
    said: dict[str, Any] = {}
    if cost.amount_usd is not None:
        said[attributes.COST] = f"{cost.amount_usd:f}"
        for name, part in cost.by_class_usd.items():
            said[attributes.COST_CLASS + name] = f"{part:f}"
    if cost.unpriced:
        said[attributes.COST_UNPRICED] = list(cost.unpriced)
    if said:
        if cost.source is not None:
            said[attributes.COST_SOURCE] = cost.source
        if cost.priced_as is not None:
            said[attributes.COST_PRICED_AS] = cost.priced_as
        if cost.table is not None:
            said[attributes.COST_TABLE] = cost.table
    return said


def _cost(span: ReadableSpan, said: Mapping[str, Any], pricer: Pricer) -> Cost | None:
    read = _answered_call(span, said)
    if read is None:
        read = normalise(to_raw(span))
    found = pricer.price(read)
    if found.call is not None:
        return found.call.cost
    return found.tool.cost if found.tool is not None else None


def _answered_call(span: ReadableSpan, said: Mapping[str, Any]) -> Span | None:
    """A call of ours whose usage is known, as far as its price goes; None for everything else."""
    scope = span.instrumentation_scope
    if (
        scope is None
        or scope.name != _runtime.SCOPE
        or said.get(attributes.OPERATION) not in _MODEL_OPERATIONS
        or attributes.INPUT_TOKENS not in said
        or attributes.ATTEMPT_DURATION in said
    ):
        return None
    usage: dict[str, Any] = {}
    for name, count in said.items():
        field = _COUNTS.get(name)
        if field is not None:
            if type(count) is not int or count < 0:
                return None
            usage[field] = count
        elif name.startswith(_WITH_CARE):
            return None  # rare, and read with care
    if usage["input"] < usage.get("cache_read", 0) + usage.get("cache_write", 0):
        return None
    port = said.get(attributes.SERVER_PORT)
    server = said.get(attributes.SERVER_ADDRESS)
    return Span(
        trace_id="",
        span_id="",
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        kind="model",
        call=Call(
            model=said.get(attributes.RESPONSE_MODEL) or said.get(attributes.REQUEST_MODEL),
            provider=said.get(attributes.PROVIDER),
            server=f"{server}:{port}" if port is not None else server,
            service_tier=said.get(attributes.SERVICE_TIER),
            usage=Usage(**usage),
        ),
    )
