"""How fast calls were, by the length of their context or by how many ran at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from agentprof.rollup.quantiles import P99_SAMPLES, nearest_rank
from agentprof_collector.reports.calls import rows_of_calls
from agentprof_collector.reports.endpoints import Endpoint, SeenCall, by_endpoint, in_flight
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import RatesBy, Selection
from agentprof_collector.stores import Store

MOST_CALLS: Final = 50_000
"""Calls that are looked at, those of the latest tasks first."""
_SHORTEST: Final = 128
"""Tokens below which contexts are not told apart."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Of a figure over calls; by nearest rank."""

    p50: float | None
    p95: float | None
    p99: float | None
    """From 100 calls on."""
    n: int
    """Calls whose figure is known."""


class RateRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one endpoint with contexts of similar length, or of similar company."""

    provider: str | None
    model: str | None
    server: str | None
    """Address of the endpoint."""
    service_tier: str | None
    low: int | None
    """Input tokens, or calls in flight, this one included; None: not known."""
    high: int | None
    """Not more than that."""
    calls: int
    errors: int
    """Of these; they have no part in the figures."""
    first_token_ns: Spread
    """From the start of the attempt that gave the answer: as the client saw it, else as the engine divides the call."""
    generation_tokens_per_s: Spread
    """Output tokens after the first, by the time from the first to the last; p95 is the fast end."""
    prefill_tokens_per_s: Spread
    """Input tokens not read from a cache, by the prefill that the engine reports."""


_FIGURES: Final = ("first_token_ns", "generation_tokens_per_s", "prefill_tokens_per_s")
_COLUMNS: Final = (
    "provider",
    "model",
    "server",
    "service_tier",
    "low",
    "high",
    "calls",
    "errors",
    *(f"{figure}.{name}" for figure in _FIGURES for name in Spread.__struct_fields__),
)


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Rows by endpoint, then from short to long, or from few to many."""
    calls = rows_of_calls(store, selection)
    endpoints = by_endpoint(itertools.islice(calls, MOST_CALLS))
    found = rate_rows(endpoints, "concurrency" if selection.by == "concurrency" else "context")
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "by": selection.by,
        "calls": sum(map(len, endpoints.values())),
        "calls_left_out": next(calls, None) is not None,
        "count": len(found),
        "rows": [msgspec.to_builtins(row) for row in found[: selection.limit]],
    }


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a bucket of an endpoint."""
    return [flat_row(row, _COLUMNS) for row in document["rows"]]


def rate_rows(endpoints: Mapping[Endpoint, Sequence[SeenCall]], by: RatesBy) -> list[RateRow]:
    """The figures of calls in buckets of powers of two; the order of the calls is of no account.

    By concurrency: calls to the same endpoint in flight on average while a call ran, itself included, rounded.
    """
    found = []
    for endpoint, members in endpoints.items():
        buckets: dict[tuple[int, int] | None, list[SeenCall]] = {}
        running = in_flight(members)
        for call in members:
            if by == "context":
                bucket = context_bucket(call.context_tokens)
            else:
                bucket = company_bucket(running.mean(call.start_ns, call.end_ns))
            buckets.setdefault(bucket, []).append(call)
        ordered = sorted(buckets.items(), key=lambda item: item[0] or (-1, -1))
        found += [_row(endpoint, bucket, inside) for bucket, inside in ordered]
    return found


def context_bucket(tokens: int | None) -> tuple[int, int] | None:
    """Fewest and most tokens of the contexts that are counted with this one."""
    if tokens is None:
        return None
    if tokens < _SHORTEST:
        return 0, _SHORTEST - 1
    low = 1 << (tokens.bit_length() - 1)
    return low, 2 * low - 1


def company_bucket(mean: float) -> tuple[int, int]:
    """Fewest and most calls in flight of those counted together: 1, 2, 3 to 4, 5 to 8, ..."""
    number = max(1, int(mean + 0.5))
    high = 1 << (number - 1).bit_length()
    return high // 2 + 1 if high > 1 else 1, high


def _row(endpoint: Endpoint, bucket: tuple[int, int] | None, calls: Sequence[SeenCall]) -> RateRow:
    ended_well = [call for call in calls if not call.error]
    low, high = bucket or (None, None)
    return RateRow(
        provider=endpoint.provider,
        model=endpoint.model,
        server=endpoint.server,
        service_tier=endpoint.service_tier,
        low=low,
        high=high,
        calls=len(calls),
        errors=len(calls) - len(ended_well),
        first_token_ns=_spread(call.first_token_ns for call in ended_well),
        generation_tokens_per_s=_spread(call.generation_tokens_per_s for call in ended_well),
        prefill_tokens_per_s=_spread(call.prefill_tokens_per_s for call in ended_well),
    )


def _spread(values: Iterable[float | None]) -> Spread:
    known = sorted(value for value in values if value is not None)
    if not known:
        return Spread(p50=None, p95=None, p99=None, n=0)
    return Spread(
        p50=nearest_rank(known, 0.50),
        p95=nearest_rank(known, 0.95),
        p99=nearest_rank(known, 0.99) if len(known) >= P99_SAMPLES else None,
        n=len(known),
    )
