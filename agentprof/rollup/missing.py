"""What is missing from the cost of a call."""

from __future__ import annotations

from agentprof.model import Call

ABANDONED = frozenset({"timeout", "cancelled", "cut"})
"""Failures of an attempt after its request had left: the provider may have worked, and may bill."""

LEFT_EARLY = frozenset({"abandoned", "cancelled", "truncated", "error"})
"""Ends of streams that did not give all of the answer."""


def is_whole(call: Call | None) -> bool:
    """Whether the cost of a call is all of it."""
    return not missing_from(call) and not abandoned_attempts(call)


def missing_from(call: Call | None) -> tuple[str, ...]:
    """Why a call's cost is not whole; a stream left early without usage counts as an abandoned attempt."""
    if call is None:
        return ("no_usage",)
    if call.cost is None:
        reasons: tuple[str, ...] = ("no_usage",) if without_usage(call) else ("unknown_model",)
    else:
        reasons = call.cost.unpriced
    if not reasons or call.stream_end not in LEFT_EARLY:
        return reasons
    return tuple(reason for reason in reasons if reason != "no_usage")


def has_unpriced_media(call: Call | None) -> bool:
    """Whether sound or images of a call that has a price are not in it."""
    if call is None or call.usage is None or not call.usage.media or call.cost is None:
        return False
    return call.cost.amount_usd is not None and "unknown_model" in call.cost.unpriced


def without_usage(call: Call | None) -> bool:
    """Whether nobody counted the tokens of a call, and nobody estimated them."""
    usage = call.usage if call is not None else None
    return usage is None or (usage.input is None and usage.output is None)


def _is_reported(call: Call) -> bool:
    """Whether somebody counted the tokens: an estimate is of what came, and the provider may bill more."""
    return not without_usage(call) and call.usage is not None and not call.usage.estimated


def abandoned_attempts(call: Call | None) -> int:
    """Exchanges that were given up after their request had left, a stream that was left early among them."""
    if call is None or (call.stream_end is None and not call.failed_attempts):
        return 0
    left_early = call.stream_end in LEFT_EARLY and not _is_reported(call)
    return sum(attempt.status in ABANDONED for attempt in call.failed_attempts) + left_early
