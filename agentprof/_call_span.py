"""What a call span says, as attributes."""

from __future__ import annotations

from itertools import islice
from operator import sub
from typing import Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from agentprof import attributes
from agentprof._arrivals import Arrivals
from agentprof._connecting import Connecting
from agentprof._gaps import HELD_BACK, READ_SLOWLY, STALLED, Gaps, gaps_between
from agentprof.dialects import Answer
from agentprof.model import Phase, Usage

_NS: Final = 1e9
_CHARS: Final = 1024
"""Of a text that an answer says of itself: what is longer is no name, and spans are kept and sent."""
_ENTRIES: Final = 128
"""Of a list that an answer says of itself."""
_KINDS: Final = 16
"""Of tools at the provider: each is an attribute, of which a span has 128, and the oldest are pushed out."""


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


def first_said(
    operation: str, host: str, port: int | None, provider: str | None, model: str | None, stream: bool
) -> dict[str, AttributeValue]:
    """What is known of a call when it begins."""
    said: dict[str, AttributeValue] = {attributes.OPERATION: operation, attributes.SERVER_ADDRESS: host}
    if provider is not None:
        said[attributes.PROVIDER] = provider
    if model is not None:
        said[attributes.REQUEST_MODEL] = model
    if port is not None:
        said[attributes.SERVER_PORT] = port
    if stream:
        said[attributes.REQUEST_STREAM] = True
    return said


def say_answer(said: dict[str, AttributeValue], answer: Answer) -> None:
    """Add what the answer says of itself, as far as it is of a length that answers have."""
    if answer.response_id is not None:
        said[attributes.RESPONSE_ID] = answer.response_id[:_CHARS]
    if answer.model is not None:
        said[attributes.RESPONSE_MODEL] = answer.model[:_CHARS]
    reasons = answer.finish_reasons
    if len(reasons) == 1:
        (reason,) = reasons.values()
        said[attributes.FINISH_REASONS] = (reason[:_CHARS],)
    elif reasons:
        ordered = sorted(reasons)[:_ENTRIES]
        said[attributes.FINISH_REASONS] = tuple([reasons[position][:_CHARS] for position in ordered])
    if answer.tool_calls:
        names = islice(answer.tool_calls.values(), _ENTRIES)
        said[attributes.TOOL_CALLS] = tuple([name[:_CHARS] for name in names])
    if answer.service_tier:
        said[attributes.SERVICE_TIER] = answer.service_tier[:_CHARS]
    if answer.usage is not None:
        say_usage(said, answer.usage)
    if answer.server_tools:
        for kind, count in islice(answer.server_tools.items(), _KINDS):
            said[attributes.SERVER_TOOLS + kind[:_CHARS]] = count
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
    if usage.media:
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


def say_times(
    said: dict[str, AttributeValue], arrivals: Arrivals, answer: Answer, began: int, end: int
) -> None:
    """Add what was observed of a body that was read as it came; all stamps by the same clock.

    Time in which the program did not ask for what was there already is the client's, not generation.
    """
    if arrivals.first_chunk is not None and arrivals.is_event_stream:
        said[attributes.TIME_TO_FIRST_CHUNK] = (arrivals.first_chunk - began) / _NS
    if arrivals.first_content is not None:
        said[attributes.FIRST_CONTENT] = (arrivals.first_content - began) / _NS
    if arrivals.first_token is None:
        return
    said[attributes.FIRST_TOKEN] = (arrivals.first_token - began) / _NS
    first, last = arrivals.first_token, arrivals.token_stamps[-1]
    late = sum([ns for stamp, ns in arrivals.held if first < stamp <= last]) if arrivals.held else 0
    say_phase(said, "generation", Phase(ns=last - first - late, source="observed"))
    say_phase(said, "client", Phase(ns=end - last + late, source="observed"))
    gaps = gaps_between(arrivals.token_stamps)
    at_once = _came_at_once(arrivals, answer, began)
    if gaps is None and not at_once:
        return
    untrue = HELD_BACK if at_once else _not_of_the_engine(arrivals.token_stamps, late, gaps)
    if untrue is not None:
        answer.timing_faults += (untrue,)
    elif gaps is not None:
        said[attributes.INTER_TOKEN + "p50"] = gaps.p50_ns / _NS
        said[attributes.INTER_TOKEN + "p95"] = gaps.p95_ns / _NS
        said[attributes.INTER_TOKEN + "max"] = gaps.max_ns / _NS
        said[attributes.INTER_TOKEN_HISTOGRAM] = gaps.histogram


_MANY: Final = 16
_FASTEST_PER_S: Final = 20_000
"""Tokens a second that no engine generates for one request."""
_BUFFERED_PER_S: Final = 500
"""So many it may have generated while it held them back: what is faster than that came at once because it was."""
_STALL_NS: Final = 50_000_000
_STALL_GAPS: Final = 8
"""How many ordinary gaps a stall lasts at least."""
_TOGETHER_NS: Final = 1_000_000
_TOGETHER: Final = 3
_SHARE: Final = 10
"""One part of so many of the time of the tokens makes a difference."""


def _not_of_the_engine(stamps: list[int], late_ns: int, gaps: Gaps | None) -> str | None:
    """Why the times between tokens say nothing of how they were generated, if so."""
    if late_ns * _SHARE > stamps[-1] - stamps[0]:
        return READ_SLOWLY
    if gaps is not None and gaps.max_ns > _STALL_NS and _stalled_ns(stamps) * _SHARE > stamps[-1] - stamps[0]:
        return STALLED
    return None


def _came_at_once(arrivals: Arrivals, answer: Answer, began: int) -> bool:
    took = arrivals.token_stamps[-1] - arrivals.token_stamps[0]
    generation = answer.phases.get("generation")
    if generation is not None and generation.ns > max(_STALL_NS, took * _TOGETHER):
        return True
    tokens = answer.usage.output if answer.usage is not None else None
    if tokens is None or tokens < _MANY or took * _FASTEST_PER_S >= tokens * _NS:
        return False
    return (arrivals.token_stamps[0] - began) * _BUFFERED_PER_S > tokens * _NS


def _stalled_ns(stamps: list[int]) -> int:
    """Time in gaps much longer than the others after which several tokens came together."""
    lengths = list(map(sub, stamps[1:], stamps))
    ordinary = sorted(length for length in lengths if length > _TOGETHER_NS)
    usual = ordinary[len(ordinary) // 2] if ordinary else 0
    least = max(_STALL_NS, usual * _STALL_GAPS)
    return sum(
        length
        for place, length in enumerate(lengths)
        if length >= least
        and len(following := lengths[place + 1 : place + 1 + _TOGETHER]) == _TOGETHER
        and max(following) < _TOGETHER_NS
    )


def say_connecting(said: dict[str, AttributeValue], connecting: Connecting) -> None:
    """Add what it took to get a connection, and the parts of it that were there."""
    say_phase(said, "connect", Phase(ns=connecting.ns, source="observed"))
    for part in ("pool", "tls"):
        if part in connecting.parts:
            said[attributes.CONNECT + part] = connecting.parts[part] / _NS


class FailedAttempt:
    """An attempt of a call that did not give the answer."""

    __slots__ = ("pause_s", "status", "took_s")

    def __init__(self, took_s: float, status: str) -> None:
        self.took_s = took_s
        self.status = status
        """HTTP status, or what kind of failure it was."""
        self.pause_s = 0.0
        """From its end to the next attempt; 0 after the last."""


def say_failed_attempts(said: dict[str, AttributeValue], failed: list[FailedAttempt]) -> None:
    """Add the attempts that did not give the answer: each attribute has one entry for each."""
    said[attributes.ATTEMPT_DURATION] = tuple([one.took_s for one in failed])
    said[attributes.ATTEMPT_BACKOFF] = tuple([one.pause_s for one in failed])
    said[attributes.ATTEMPT_STATUS] = tuple([one.status for one in failed])


def say_reported_times(said: dict[str, AttributeValue], answer: Answer) -> None:
    """Add what the engine says of its own time, who it is, and what of it cannot be."""
    if answer.phases:
        for name, phase in answer.phases.items():
            say_phase(said, name, phase)
    if answer.engine is not None:
        said[attributes.ENGINE] = answer.engine
    if answer.timing_faults:
        said[attributes.TIMING_FAULTS] = answer.timing_faults


def say_phase(said: dict[str, AttributeValue], name: str, phase: Phase) -> None:
    """Add one phase; a later one of the same name takes its place."""
    said[attributes.PHASE + name] = phase.ns / _NS
    said[attributes.PHASE_SOURCE + name] = phase.source
    if phase.field is not None:
        said[attributes.PHASE_FIELD + name] = phase.field
