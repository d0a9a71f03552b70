"""Calls by the endpoint that served them, and how many ran there at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from agentprof.rollup.calls import CallRow
from agentprof_collector.estimates.in_flight import InFlight

_BATCH = "batch"
"""The service tier of results of a batch, whose times nobody knows."""
_BEFORE_WORK = ("failed_attempt", "backoff", "connect", "network")
_DIVIDED_BY = ("queue", "prefill", "generation")
_UNTIL_TOKEN = ("connect", "network", "queue", "prefill")
_GENERATING = ("chat", "text_completion", "generate_content")
"""Operations that read a prompt and then make one token after the other."""


class Endpoint(NamedTuple):
    """What calls have in common whose speed can be compared."""

    provider: str | None
    model: str | None
    server: str | None
    """Address, `host` or `host:port`."""
    service_tier: str | None

    @property
    def order(self) -> tuple[str, ...]:
        """For sorting; unknown comes first."""
        return tuple(name or "" for name in self)


class SeenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the speed of an endpoint is told from: a call in few bytes, since there are many."""

    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    error: bool
    first_token_ns: int | None
    """From the start of the last attempt: what retries took says nothing about an endpoint. As the client saw it; else
    what the engine says of the call up to there, with the way."""
    work_start_ns: int
    """When the request of the last attempt was under way."""
    wait_ns: int | None
    """Until the first token, where nobody divides it into queue and prefill."""
    whole_ns: int | None
    """From the same moment to the end of a call that generates text, where nobody divides it at all."""
    connect_ns: int | None
    input_tokens: int | None
    """None: not reported, or an estimate."""
    context_tokens: int | None
    """The same, or an estimate."""
    cached_tokens: int | None
    output_tokens: int | None
    """None: not reported, or an estimate."""
    has_unseen_reasoning: bool
    """Reasoning that nobody saw was over before the first token."""
    generation_tokens_per_s: float | None
    prefill_tokens_per_s: float | None


def by_endpoint(rows: Iterable[CallRow]) -> dict[Endpoint, list[SeenCall]]:
    """Calls by endpoint, in the order of the endpoints; results of batches are left out."""
    found: dict[Endpoint, list[SeenCall]] = {}
    for row in rows:
        if row.service_tier != _BATCH:
            endpoint = Endpoint(row.provider, row.model, row.server, row.service_tier)
            found.setdefault(endpoint, []).append(_seen(row))
    return dict(sorted(found.items(), key=lambda item: item[0].order))


def in_flight(calls: Iterable[SeenCall]) -> InFlight:
    """How many of the calls ran when."""
    return InFlight((call.start_ns, call.end_ns) for call in calls)


def _seen(row: CallRow) -> SeenCall:
    phases = row.phases_ns
    wait_ns = phases.get("wait") if "queue" not in phases and "prefill" not in phases else None
    is_whole = row.operation in _GENERATING and not any(phase in phases for phase in (*_DIVIDED_BY, "wait"))
    return SeenCall(
        trace_id=row.trace_id,
        span_id=row.span_id,
        start_ns=row.start_ns,
        end_ns=row.start_ns + row.duration_ns,
        error=row.error,
        first_token_ns=_first_token_ns(row),
        work_start_ns=row.start_ns + sum(phases.get(phase, 0) for phase in _BEFORE_WORK),
        wait_ns=wait_ns or None,
        whole_ns=(phases.get("model") or None) if is_whole else None,
        connect_ns=phases.get("connect"),
        input_tokens=None if row.usage_estimated else row.tokens["input"],
        context_tokens=row.tokens["input"],
        cached_tokens=row.tokens["cache_read"],
        output_tokens=None if row.usage_estimated else row.tokens["output"],
        has_unseen_reasoning=bool(row.tokens["reasoning"]) and not _reasoning_seen(row),
        generation_tokens_per_s=row.generation_tokens_per_s,
        prefill_tokens_per_s=row.prefill_tokens_per_s,
    )


def _first_token_ns(row: CallRow) -> int | None:
    if row.first_token_ns is None:
        return _first_token_of_engine_ns(row)
    since = row.first_token_ns - sum(row.phases_ns.get(phase, 0) for phase in ("failed_attempt", "backoff"))
    return since if since >= 0 else None


def _first_token_of_engine_ns(row: CallRow) -> int | None:
    """What precedes it, if the engine's figures divide all of the call; the way back is in it, too.

    What was asked for in one piece has no first token, and a call without generation perhaps never had one.
    """
    phases, sources = row.phases_ns, row.phase_sources
    if row.stream is False or any(sources.get(name, "observed") == "observed" for name in _DIVIDED_BY):
        return None
    if "wait" in phases or "model" in phases:
        return None
    return sum(phases.get(name, 0) for name in _UNTIL_TOKEN)


def _reasoning_seen(row: CallRow) -> bool:
    first, content = row.first_token_ns, row.first_content_ns
    return first is not None and (content is None or first < content)
