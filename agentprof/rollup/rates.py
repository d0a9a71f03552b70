"""How fast a call went: measured token rates, of its prompt and of its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from agentprof._gaps import HELD_BACK, READ_SLOWLY
from agentprof.model import Call, Usage
from agentprof.rollup.phases import Segment

_OF_THE_ENGINE: Final = frozenset({"reported", "joined", "derived"})
_SAY_NOTHING: Final = frozenset({HELD_BACK, READ_SLOWLY})
"""Faults of streams whose tokens did not come when they were generated, all in all."""
_FASTEST: Final = 20_000
"""Tokens a second of one answer, on the client's clock, above which a proxy held the stream back and passed it on at
once: several times what the fastest services generate."""


class Rates(NamedTuple):
    """Tokens per second of one call; None where one of the two numbers is not known."""

    prefill_tokens_per_s: float | None
    """Input tokens not read from a cache, over the prefill."""
    generation_tokens_per_s: float | None
    """Output tokens after the first, over the generation."""


_UNKNOWN: Final = Rates(None, None)


def rates(call: Call, phases: Iterable[Segment]) -> Rates:
    """The rates of a call from its usage and the phases that fill it.

    A rate needs measured figures on both sides: no rate comes from estimated tokens, none from tokens that may
    have been read from a cache nobody reports on, and none from a generation whose tokens are not those of the
    usage: reasoning that was not seen is over before the first token that is, a stream that was left holds fewer
    tokens than were made, and one that a proxy passed on at once, or that the program read slowly, says nothing of
    when they were made.

    With continuous batching both figures contain the work of other requests: the rate is what this call got,
    not what the engine can do.

    Args:
        call: What is known of it.
        phases: As `fill_phases` gives them.
    """
    usage = call.usage
    if usage is None or usage.estimated:
        return _UNKNOWN
    found = {phase.name: phase for phase in phases}
    if "prefill" not in found and "generation" not in found:
        return _UNKNOWN
    prefill = _per_second(_uncached(usage), _of_engine(found.get("prefill")))
    generation = found.get("generation")
    generated = _per_second(_after_first(usage), _generation_ns(call, usage, generation))
    if generated is not None and generated > _FASTEST and _of_engine(generation) is None:
        generated = None
    return Rates(prefill, generated)


def _uncached(usage: Usage) -> int | None:
    if usage.input is None or usage.cache_read is None:
        return None
    return usage.input - usage.cache_read


def _after_first(usage: Usage) -> int | None:
    return None if usage.output is None else usage.output - 1


def _of_engine(phase: Segment | None) -> int | None:
    return phase.ns if phase is not None and phase.source in _OF_THE_ENGINE else None


def _generation_ns(call: Call, usage: Usage, phase: Segment | None) -> int | None:
    reported = _of_engine(phase)
    if reported is not None or phase is None:
        return reported
    if call.first_token_ns is None or call.stream_end not in (None, "complete"):
        return None
    if not _SAY_NOTHING.isdisjoint(call.timing_faults):
        return None
    return None if usage.reasoning and not _reasoning_seen(call) else phase.ns


def _reasoning_seen(call: Call) -> bool:
    """Some token came before the first content: visible reasoning."""
    first_token, first_content = call.first_token_ns, call.first_content_ns
    return first_token is not None and (first_content is None or first_token < first_content)


def _per_second(tokens: int | None, ns: int | None) -> float | None:
    if tokens is None or ns is None or tokens <= 0 or ns <= 0:
        return None
    return round(tokens / (ns / 1e9), 3)
