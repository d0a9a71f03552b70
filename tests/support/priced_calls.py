"""Calls to be priced, in few words."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from agentprof.config import Config
from agentprof.model import Call, Cost, FailedAttempt, Span, Usage
from agentprof.pricing import Pricer

START_NS = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * 10**9


def a_call(
    usage: Usage | None = None,
    *,
    model: str | None = "gpt-4o-mini",
    provider: str | None = "openai",
    server: str | None = None,
    charged: str | None = None,
    tier: str | None = None,
    failed: tuple[str, ...] = (),
    error: bool = False,
    error_type: str | None = None,
    start_ns: int = START_NS,
    seconds: int | None = 2,
) -> Span:
    """A call at noon of a day for which the table has prices."""
    return Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        start_ns=start_ns,
        end_ns=None if seconds is None else start_ns + seconds * 10**9,
        kind="model",
        error=error,
        error_type=error_type,
        call=Call(
            model=model,
            provider=provider,
            server=server,
            usage=usage,
            service_tier=tier,
            reported_cost_usd=None if charged is None else Decimal(charged),
            failed_attempts=tuple(
                FailedAttempt(duration_ns=10**8, backoff_ns=10**9, status=status) for status in failed
            ),
        ),
    )


def cost(span: Span, config: Config | None = None) -> Cost:
    """What it costs by the table and this configuration."""
    priced = Pricer(config).price(span)
    assert priced.call is not None
    assert priced.call.cost is not None
    return priced.call.cost
