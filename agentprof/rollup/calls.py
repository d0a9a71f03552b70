"""Calls of a task as rows, one a call: the base of every percentile over calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from agentprof.model import EnergyWindow, Span
from agentprof.rollup import plain_tree
from agentprof.rollup.energy import joules_of
from agentprof.rollup.measured import give_measured
from agentprof.rollup.phases import fill_phases
from agentprof.rollup.profile import profiled
from agentprof.rollup.rates import rates
from agentprof.rollup.rows import cost_of, paths_of, tokens_of
from agentprof.summary import Joules, Tokens


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the task's summary counts it."""

    task_id: str
    trace_id: str
    span_id: str
    path: list[str]
    """Names from the task down to the model."""
    model: str | None
    provider: str | None
    server: str | None
    """Address of the endpoint, `host` or `host:port`."""
    engine: str | None
    """What served it, as far as its answer shows."""
    operation: str | None
    start_ns: int
    duration_ns: int
    error: bool
    error_type: str | None
    stream: bool | None
    stream_end: str | None
    finish_reasons: list[str]
    attempts: int | None
    failed_statuses: list[str]
    phases_ns: dict[str, int]
    """Fills the call exactly: `failed_attempt`, `backoff` and the phases of the last attempt."""
    phase_sources: dict[str, str]
    """How each is known; of several stretches the last."""
    phase_fields: dict[str, str] = {}
    """Where each was read: path of the raw field in the engine's answer or span, or the arithmetic over such."""
    timing_faults: list[str]
    """Times the server reported that cannot be, and are not among the phases."""
    first_token_ns: int | None
    first_content_ns: int | None
    tokens: Tokens
    usage_estimated: bool
    """The tokens are an estimate."""
    service_tier: str | None
    """As the provider names it; `batch` for a result of a batch, whose times nobody knows."""
    cost_usd: Decimal | None
    unpriced: list[str]
    energy_j: Joules | None
    energy_source: str | None
    """`measured`, `config` or `ecologits`; None: its energy is not known."""
    energy_boundary: str | None
    """`gpu`, `server` or `facility`."""
    energy_covers: str | None
    """What of the call is in it, as `tokens` or `busy time`."""
    prefill_tokens_per_s: float | None
    """What this call got of the engine, beside other requests; None where it is not measured."""
    generation_tokens_per_s: float | None
    input_bytes: dict[str, int]
    """Sizes of the sections of the request that it has; empty: unknown."""
    tools_offered: int | None
    fingerprint: str | None
    """Calls of one task that have the same asked the same."""
    scope: str
    service: str | None


def call_rows(task_id: str, spans: Iterable[Span], windows: Sequence[EnergyWindow] = ()) -> list[CallRow]:
    """The calls of a task, by start.

    Args:
        task_id: The task.
        spans: In any order, copies allowed.
        windows: Measured energy, as in `Facts`.

    Raises:
        ValueError: there are no spans.
    """
    tree = plain_tree(task_id, spans)
    profile = profiled(tree)
    give_measured(tree.of_kind("model"), profile, windows)
    paths = paths_of(tree)
    rows = []
    for node in tree.of_kind("model"):
        call = node.call
        if call is None:
            continue
        filled = fill_phases(call, node.end - node.start)
        phases: dict[str, int] = {}
        sources: dict[str, str] = {segment.name: segment.source for segment in filled.segments}
        speed = rates(call, filled.segments)
        for segment in filled.segments:
            phases[segment.name] = phases.get(segment.name, 0) + segment.ns
        rows.append(
            CallRow(
                task_id=task_id,
                trace_id=node.span.trace_id,
                span_id=node.span.span_id,
                path=list(paths[id(node)]),
                model=call.model,
                provider=call.provider,
                server=call.server,
                engine=call.engine,
                operation=call.operation,
                start_ns=node.start,
                duration_ns=node.end - node.start,
                error=node.error,
                error_type=node.span.error_type,
                stream=call.stream,
                stream_end=call.stream_end,
                finish_reasons=list(call.finish_reasons),
                attempts=call.attempts,
                failed_statuses=[attempt.status for attempt in call.failed_attempts],
                phases_ns=phases,
                phase_sources=sources,
                phase_fields={
                    name: field
                    for name, field in filled.fields.items()
                    if sources.get(name, "observed") != "observed"
                },
                timing_faults=list(dict.fromkeys((*call.timing_faults, *filled.faults))),
                first_token_ns=call.first_token_ns,
                first_content_ns=call.first_content_ns,
                tokens=tokens_of(node),
                usage_estimated=call.usage is not None and call.usage.estimated,
                service_tier=call.service_tier,
                cost_usd=cost_of(node),
                unpriced=list(call.cost.unpriced) if call.cost is not None else [],
                energy_j=joules_of(node),
                energy_source=call.energy.source if call.energy is not None else None,
                energy_boundary=call.energy.boundary if call.energy is not None else None,
                energy_covers=call.energy.covers if call.energy is not None else None,
                prefill_tokens_per_s=speed.prefill_tokens_per_s,
                generation_tokens_per_s=speed.generation_tokens_per_s,
                input_bytes=call.input_bytes,
                tools_offered=call.tools_offered,
                fingerprint=call.fingerprint,
                scope=node.span.scope,
                service=node.span.service,
            )
        )
    return rows
