"""Joins what several spans know of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TypeVar

from agentprof.model import ENERGY_SOURCES, Call, Cost, Energy, Phase, Usage
from agentprof.rollup.possible import STRENGTH
from agentprof.summary import TOKENS

_T = TypeVar("_T")


# Where instrumentations of one call disagree: our own first, then the official ones and SDKs that trace
# themselves. OpenLLMetry 0.62, for one, counts the first output token of an Anthropic stream twice.
_TRUSTED: tuple[tuple[str, ...], ...] = (
    ("agentprof",),
    ("opentelemetry.instrumentation.genai.", "com.anthropic.sdk"),
)


def trust(scope: str) -> int:
    """How much the figures of an instrumentation scope are trusted beside another's: lower is more."""
    return next((rank for rank, scopes in enumerate(_TRUSTED) if scope.startswith(scopes)), len(_TRUSTED))


def stronger(a: Phase, b: Phase) -> Phase:
    """The better known of two figures for one phase; of equals the first."""
    return b if STRENGTH[b.source] < STRENGTH[a.source] else a


def merged_phases(first: dict[str, Phase], second: dict[str, Phase]) -> dict[str, Phase]:
    """For each phase the better known figure."""
    both = dict(first)
    for name, phase in second.items():
        both[name] = stronger(both[name], phase) if name in both else phase
    return both


def union(calls: Sequence[Call]) -> Call:
    """One call of several reports of it, the values of the first that has one.

    Times in the reports must count from the same instant.
    """
    return Call(
        model=_first([c.model for c in calls]),
        request_model=_first([c.request_model for c in calls]),
        provider=_first([c.provider for c in calls]),
        server=_first([c.server for c in calls]),
        operation=_first([c.operation for c in calls]),
        response_id=_first([c.response_id for c in calls]),
        request_id=_first([c.request_id for c in calls]),
        usage=_usage([c.usage for c in calls if c.usage is not None]),
        cost=_cost(calls),
        reported_cost_usd=_first([c.reported_cost_usd for c in calls]),
        energy=_energy(calls),
        finish_reasons=_first([c.finish_reasons or None for c in calls]) or (),
        tool_calls=_first([c.tool_calls or None for c in calls]) or (),
        tool_call_ids=_first([c.tool_call_ids or None for c in calls]) or (),
        tool_result_ids=_first([c.tool_result_ids or None for c in calls]) or (),
        stream=_first([c.stream for c in calls]),
        stream_end=_first([c.stream_end for c in calls]),
        service_tier=_first([c.service_tier for c in calls]),
        attempts=_first([c.attempts for c in calls]),
        failed_attempts=_first([c.failed_attempts or None for c in calls]) or (),
        first_token_ns=_first([c.first_token_ns for c in calls]),
        first_content_ns=_first([c.first_content_ns for c in calls]),
        phases=_phases(calls),
        queue_starts_late=_late(calls),
        engine=_first([c.engine for c in calls]),
        timing_faults=tuple(dict.fromkeys(fault for c in calls for fault in c.timing_faults)),
        inter_token_histogram=_first([c.inter_token_histogram or None for c in calls]) or {},
        inter_token_max_ns=_first([c.inter_token_max_ns for c in calls]),
        input_bytes=_first([c.input_bytes or None for c in calls]) or {},
        tools_offered=_first([c.tools_offered for c in calls]),
        fingerprint=_first([c.fingerprint for c in calls]),
        prefixes=_first([c.prefixes or None for c in calls]) or (),
    )


def summed(costs: Sequence[Cost]) -> Cost:
    """The costs of the parts as one; a part without an amount leaves its reasons."""
    amounts = [cost.amount_usd for cost in costs if cost.amount_usd is not None]
    classes: dict[str, Decimal] = {}
    for cost in costs:
        for name, part in cost.by_class_usd.items():
            classes[name] = classes.get(name, Decimal(0)) + part
    return Cost(
        amount_usd=sum(amounts, Decimal(0)) if amounts else None,
        by_class_usd=classes,
        source=_first([cost.source for cost in costs]),
        priced_as=_first([cost.priced_as for cost in costs]),
        table=_first([cost.table for cost in costs]),
        unpriced=tuple(reason for cost in costs for reason in cost.unpriced),
    )


def _first(found: Sequence[_T | None]) -> _T | None:
    return next((value for value in found if value is not None), None)


def _usage(found: Sequence[Usage]) -> Usage | None:
    if not found:
        return None
    reported = [usage for usage in found if not usage.estimated]
    # An estimate never stands beside what was reported, in whatever part of it.
    used = reported or found
    tokens = {name: _first([getattr(usage, name) for usage in used]) for name in TOKENS}
    tools = _first([usage.server_tools or None for usage in used]) or {}
    media = _first([usage.media or None for usage in used]) or {}
    return Usage(
        **tokens,
        server_tools=tools,
        media=media,
        estimated=not reported,
        billed_input=_first([usage.billed_input for usage in used]),
        billed_output=_first([usage.billed_output for usage in used]),
        total_differs=any(usage.total_differs for usage in used),
    )


def _known(usage: Usage | None) -> int:
    return 0 if usage is None else sum(getattr(usage, name) is not None for name in TOKENS)


def _cost(calls: Sequence[Call]) -> Cost | None:
    """A price made from the fullest usage; a provider's own figure before any, none of an estimate beside usage."""
    is_reported = any(call.usage is not None and not call.usage.estimated for call in calls)
    priced = [
        call
        for call in calls
        if call.cost is not None
        and not (is_reported and call.usage is not None and call.usage.estimated and _is_made(call.cost))
    ]
    if not priced:
        return None
    return max(
        priced,
        key=lambda call: (
            call.cost is not None and call.cost.source == "reported",
            call.cost is not None and call.cost.amount_usd is not None,
            _known(call.usage),
        ),
    ).cost


def _energy(calls: Sequence[Call]) -> Energy | None:
    """That of the strongest source; of equals made from the fullest usage."""
    known = [(call.energy, call.usage) for call in calls if call.energy is not None]
    if not known:
        return None
    return min(known, key=lambda pair: (ENERGY_SOURCES.index(pair[0].source), -_known(pair[1])))[0]


def _is_made(cost: Cost) -> bool:
    """Whether a price was made from usage, and not said by the provider."""
    return cost.source != "reported"


def _phases(calls: Sequence[Call]) -> dict[str, Phase]:
    phases: dict[str, Phase] = {}
    for call in calls:
        phases = merged_phases(phases, call.phases)
    return phases


def _late(calls: Sequence[Call]) -> bool:
    queue = _phases(calls).get("queue")
    return any(call.queue_starts_late and call.phases.get("queue") == queue for call in calls)
