"""What a call that failed without usage cost: nothing if it was refused, else not known."""

from __future__ import annotations

from agentprof.model import Cost, Span
from agentprof.pricing.rates import ZERO

# Attempts that left and were given up may be billed. They are counted one by one as abandoned attempts,
# so the call is not counted again for having no usage.
_ABANDONED = frozenset(("timeout", "cut", "cancelled"))

# Exceptions the generated SDKs raise for an answer of 400 to 429.
_REFUSALS = frozenset(
    (
        "AuthenticationError",
        "BadRequestError",
        "ConflictError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
        "RequestTooLargeError",
        "UnprocessableEntityError",
    )
)

NO_USAGE = Cost(unpriced=("no_usage",))


def cost_without_usage(span: Span) -> Cost:
    """The cost of a call whose usage is not known."""
    if not span.error or span.call is None:
        return NO_USAGE
    statuses = {attempt.status for attempt in span.call.failed_attempts}
    if not statuses and span.error_type is not None:
        statuses = {span.error_type}
    open_ends = {status for status in statuses if not _is_refusal(status)}
    if statuses and not open_ends:
        return Cost(amount_usd=ZERO)
    if open_ends and open_ends <= _ABANDONED and span.call.failed_attempts:
        return Cost()
    return NO_USAGE


def _is_refusal(status: str) -> bool:
    """Whether an HTTP status or the name of an exception says that the server refused the request."""
    if len(status) == 3 and status.isdecimal():
        # 499 is written where the client went away: that request may have been served.
        return status[0] == "4" and status != "499"
    return status.rpartition(".")[2] in _REFUSALS
