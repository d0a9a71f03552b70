"""How long a machine worked on a call, as far as the client can tell."""

from __future__ import annotations

from agentprof.model import Call, Span

_WORKED_ON = ("prefill", "generation")
_ELSEWHERE = ("connect", "network", "queue", "client")
_BATCH = "batch"


def busy_ns(span: Span, call: Call) -> int | None:
    """Prefill and generation, where both are known; else the last attempt without what is known to be connecting,
    network, queue, or the client's own time.

    None: its end is not known, no attempt succeeded, or it is a result of a batch, whose times nobody knows.
    """
    last = last_attempt_ns(span, call)
    if last is None:
        return None
    worked = [call.phases[name].ns for name in _WORKED_ON if name in call.phases]
    if len(worked) == len(_WORKED_ON):
        return min(sum(worked), last)
    elsewhere = sum(call.phases[name].ns for name in _ELSEWHERE if name in call.phases)
    return max(0, last - elsewhere)


def last_attempt_ns(span: Span, call: Call) -> int | None:
    """The call without its failed attempts and the pauses after them; None as of `busy_ns`."""
    if span.end_ns is None or (call.service_tier or "").lower() == _BATCH:
        return None
    if call.failed_attempts and call.attempts is not None and len(call.failed_attempts) >= call.attempts:
        return None
    failed = sum(attempt.duration_ns + attempt.backoff_ns for attempt in call.failed_attempts)
    return max(0, span.end_ns - span.start_ns - failed)
