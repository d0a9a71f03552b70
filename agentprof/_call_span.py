"""What a call span says, as attributes."""

from __future__ import annotations

from typing import Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from agentprof import attributes
from agentprof._connecting import Connecting
from agentprof._gaps import gaps_between
from agentprof._streams import Arrivals
from agentprof.dialects import Answer
from agentprof.model import Phase, Usage

_NS: Final = 1e9


def set_on(span: Span, said: dict[str, AttributeValue]) -> None:
    """Set attributes that need no cleaning: names of ours, plain values and tuples of them.

    The SDK looks at every one of them again, which takes longer than anything else at the end of a call. Where
    its own mapping has room and nothing to cut they go straight into it.
    """
    held = getattr(span, "_attributes", None)
    if type(held) is BoundedAttributes and held.max_value_len is None and span.is_recording():
        present = held._dict
        if held.maxlen is None or len(present) + len(said) <= held.maxlen:
            with held._lock:
                present.update(said)
            return
    span.set_attributes(said)


def say_answer(said: dict[str, AttributeValue], answer: Answer) -> None:
    """Add what the answer says of itself."""
    if answer.response_id is not None:
        said[attributes.RESPONSE_ID] = answer.response_id
    if answer.model is not None:
        said[attributes.RESPONSE_MODEL] = answer.model
    if answer.finish_reasons:
        reasons = answer.finish_reasons
        ordered = reasons if len(reasons) == 1 else sorted(reasons)
        said[attributes.FINISH_REASONS] = tuple([reasons[position] for position in ordered])
    if answer.tool_calls:
        said[attributes.TOOL_CALLS] = tuple(answer.tool_calls.values())
    if answer.service_tier:
        said[attributes.SERVICE_TIER] = answer.service_tier
    if answer.usage is not None:
        say_usage(said, answer.usage)
    for kind, count in answer.server_tools.items():
        said[attributes.SERVER_TOOLS + kind] = count
    if answer.cost_usd is not None:
        said[attributes.COST] = f"{answer.cost_usd:f}"
        said[attributes.COST_SOURCE] = "reported"


def say_usage(said: dict[str, AttributeValue], usage: Usage) -> None:
    """Add token counts, and that they are an estimate where they are one."""
    if usage.input is not None:
        said[attributes.INPUT_TOKENS] = usage.input
    if usage.output is not None:
        said[attributes.OUTPUT_TOKENS] = usage.output
    if usage.cache_read is not None:
        said[attributes.CACHE_READ_TOKENS] = usage.cache_read
    if usage.cache_write is not None:
        said[attributes.CACHE_WRITE_TOKENS] = said[attributes.CACHE_CREATION_TOKENS] = usage.cache_write
    if usage.cache_write_1h is not None:
        said[attributes.CACHE_WRITE_1H_TOKENS] = usage.cache_write_1h
    if usage.reasoning is not None:
        said[attributes.REASONING_TOKENS] = usage.reasoning
    for name, count in usage.media.items():
        said[attributes.MEDIA_TOKENS + name] = count
    if usage.estimated:
        said[attributes.USAGE_ESTIMATED] = True
    if usage.billed_input is not None:
        said[attributes.BILLED_INPUT_TOKENS] = usage.billed_input
    if usage.billed_output is not None:
        said[attributes.BILLED_OUTPUT_TOKENS] = usage.billed_output
    if usage.total_differs:
        said[attributes.USAGE_TOTAL_DIFFERS] = True


def say_times(said: dict[str, AttributeValue], arrivals: Arrivals, began: int, end: int) -> None:
    """Add what was observed of a body that was read as it came; all stamps by the same clock."""
    if arrivals.first_chunk is not None and arrivals.is_event_stream:
        said[attributes.TIME_TO_FIRST_CHUNK] = (arrivals.first_chunk - began) / _NS
    if arrivals.first_content is not None:
        said[attributes.FIRST_CONTENT] = (arrivals.first_content - began) / _NS
    if arrivals.first_token is None:
        return
    said[attributes.FIRST_TOKEN] = (arrivals.first_token - began) / _NS
    last = arrivals.token_stamps[-1]
    say_phase(said, "generation", Phase(ns=last - arrivals.first_token, source="observed"))
    say_phase(said, "client", Phase(ns=end - last, source="observed"))
    gaps = gaps_between(arrivals.token_stamps)
    if gaps is not None:
        said[attributes.INTER_TOKEN + "p50"] = gaps.p50_ns / _NS
        said[attributes.INTER_TOKEN + "p95"] = gaps.p95_ns / _NS
        said[attributes.INTER_TOKEN + "max"] = gaps.max_ns / _NS
        said[attributes.INTER_TOKEN_HISTOGRAM] = gaps.histogram


def say_connecting(said: dict[str, AttributeValue], connecting: Connecting) -> None:
    """Add what it took to get a connection, and the parts of it that were there."""
    say_phase(said, "connect", Phase(ns=connecting.ns, source="observed"))
    for part in ("pool", "tls"):
        if part in connecting.parts:
            said[attributes.CONNECT + part] = connecting.parts[part] / _NS


def say_phase(said: dict[str, AttributeValue], name: str, phase: Phase) -> None:
    """Add one phase; a later one of the same name takes its place."""
    said[attributes.PHASE + name] = phase.ns / _NS
    said[attributes.PHASE_SOURCE + name] = phase.source
    if phase.field is not None:
        said[attributes.PHASE_FIELD + name] = phase.field
