"""Calls by the endpoint that served them, and how many ran there at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agentprof.rollup.calls import CallRow
from agentprof_collector.estimates.in_flight import InFlight

_BATCH = "batch"
"""The service tier of results of a batch, whose times nobody knows."""


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


def by_endpoint(rows: Iterable[CallRow]) -> dict[Endpoint, list[CallRow]]:
    """Calls by endpoint, in the order of the endpoints; results of batches are left out."""
    found: dict[Endpoint, list[CallRow]] = {}
    for row in rows:
        if row.service_tier != _BATCH:
            endpoint = Endpoint(row.provider, row.model, row.server, row.service_tier)
            found.setdefault(endpoint, []).append(row)
    return dict(sorted(found.items(), key=lambda item: item[0].order))


def in_flight(rows: Iterable[CallRow]) -> InFlight:
    """How many of the calls ran when."""
    return InFlight((row.start_ns, row.start_ns + row.duration_ns) for row in rows)


def before_wait_ns(row: CallRow) -> int:
    """From the start of a call until its last attempt had a connection and the request was under way."""
    return _sum(row, ("failed_attempt", "backoff", "connect", "network"))


def first_token_ns(row: CallRow) -> int | None:
    """From the start of the last attempt to its first token: what retries took says nothing about an endpoint."""
    if row.first_token_ns is None:
        return None
    since = row.first_token_ns - _sum(row, ("failed_attempt", "backoff"))
    return since if since >= 0 else None


def _sum(row: CallRow, phases: tuple[str, ...]) -> int:
    return sum(row.phases_ns.get(phase, 0) for phase in phases)
