"""What waits and whole calls were made of where no server says it: estimates by endpoint, or why there are none."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from agentprof.rollup.calls import CallRow, call_rows
from agentprof_collector.estimates.in_flight import InFlight
from agentprof_collector.estimates.validated import WORDS, Divides
from agentprof_collector.estimates.waits import (
    CONFIDENCE,
    REASONS,
    Division,
    Fit,
    Interval,
    Unfit,
    Wait,
    Whole,
    fit,
)
from agentprof_collector.reports.calls import rows_of_calls
from agentprof_collector.reports.endpoints import Endpoint, SeenCall, by_endpoint, in_flight
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.selection import Selection, the_spans, the_task
from agentprof_collector.stores import Store

MOST_CALLS: Final = 20_000
"""Calls that are looked at, those of the latest tasks first."""
BEFORE_NS: Final = 24 * 3600 * 1_000_000_000
"""How long before the start of a task the calls ran that its own are compared with."""
PHASES: Final = ("queue", "prefill", "generation", "network")

CallReason = Literal["failed", "no_usage", "cache_unknown", "hidden_reasoning"]

CALL_REASONS: Final[dict[str, str]] = {
    "failed": "the call failed",
    "no_usage": "nobody reported its tokens",
    "cache_unknown": "nobody says how much of the prompt was read from a cache",
    "hidden_reasoning": "reasoning that was not seen came before its first token",
    **REASONS,
}
"""Why a wait is not divided."""


class EstimateRow(msgspec.Struct, frozen=True, kw_only=True):
    """Undivided time of calls to one endpoint, and what it was made of."""

    provider: str | None
    model: str | None
    server: str | None
    """Address of the endpoint."""
    service_tier: str | None
    divides: Divides
    """`wait`: times to first tokens; `model`: whole calls without one."""
    calls: int
    """Calls with such a time."""
    answered: int
    """Of these, those with an estimate."""
    answered_ns: int
    """The time of those."""
    phases_ns: dict[str, dict[str, int]] | None
    """`queue` and `prefill`, and of whole calls `generation`, which share the time, and `network`, which is in the
    others, where known: `low_ns`, `likely_ns`, `high_ns`, summed over the answered; None: there is no estimate."""
    reason: str | None
    """Why there is no estimate at all; None where there is one."""
    not_answered: dict[str, int]
    """Calls without an estimate, by reason."""
    fitted_on: int
    """Waits that the estimate was learnt from, `alone` of which nothing else was in flight."""
    alone: int
    slowed: float | None
    """Time per token in company by that alone, at least 1; None: not known."""


_COLUMNS: Final = (
    "provider",
    "model",
    "server",
    "service_tier",
    "divides",
    "calls",
    "answered",
    "answered_ns",
    *(f"phases_ns.{phase}.{bound}" for phase in PHASES for bound in Interval._fields),
    "reason",
    "not_answered",
    "fitted_on",
    "alone",
    "slowed",
)


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Rows by endpoint: of the selected tasks, or of one task learnt from the calls of the day before it."""
    own: set[tuple[str, str]] | None = None
    if selection.task_id is None:
        calls: Iterable[CallRow] = itertools.islice(rows_of_calls(store, selection), MOST_CALLS)
    else:
        calls, own = _around(store, selection)
    found = estimate_rows(by_endpoint(calls), own)
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "validated": {divides: WORDS[divides] for divides in sorted({row.divides for row in found})},
        "confidence": CONFIDENCE,
        "reasons": {
            reason: CALL_REASONS[reason] for reason in sorted({why for row in found for why in _reasons(row)})
        },
        "count": len(found),
        "rows": [msgspec.to_builtins(row) for row in found[: selection.limit]],
    }


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an endpoint and kind of time."""
    return [flat_row(row, _COLUMNS) for row in document["rows"]]


def in_summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The `estimates` of a task's summary: phase, bounds, and what they rest on."""
    return [
        {
            "phase": phase,
            "low_ns": bounds["low_ns"],
            "high_ns": bounds["high_ns"],
            "basis": f"{row['divides']} of {row['answered']} of {row['calls']} calls of {_name(row)}, from "
            f"{row['fitted_on']} calls of the day before; {document['validated'][row['divides']]}",
        }
        for row in document["rows"]
        for phase, bounds in (row["phases_ns"] or {}).items()
    ]


def estimate_rows(
    endpoints: Mapping[Endpoint, Sequence[SeenCall]], own: set[tuple[str, str]] | None = None
) -> list[EstimateRow]:
    """Estimates by endpoint; the order of the calls is of no account.

    Args:
        endpoints: calls of any tasks.
        own: trace id and span id of those that are divided; None: all. The others are only learnt from.
    """
    found = []
    for endpoint, members in endpoints.items():
        running = in_flight(members)
        waits = [
            _Seen(call, _wait(call, call.wait_ns, running)) for call in members if call.wait_ns is not None
        ]
        wholes = [
            _Seen(call, _whole(call, call.whole_ns, running)) for call in members if call.whole_ns is not None
        ]
        asked: dict[Divides, list[_Undivided]] = {
            "wait": [seen.time for seen in waits if own is None or seen.key in own],
            "model": [seen.time for seen in wholes if own is None or seen.key in own],
        }
        if any(asked.values()):
            learnt = fit(seen.time for seen in waits if isinstance(seen.time, Wait))
            found += [_row(endpoint, divides, times, learnt) for divides, times in asked.items() if times]
    return found


_Undivided = Wait | Whole | CallReason


class _Seen(NamedTuple):
    call: SeenCall
    time: _Undivided

    @property
    def key(self) -> tuple[str, str]:
        return self.call.trace_id, self.call.span_id


def _around(store: Store, selection: Selection) -> tuple[Iterator[CallRow], set[tuple[str, str]]]:
    """Calls of a task and of the day before it, each once, and which of them are its own."""
    summary = the_task(store, selection)
    spans = the_spans(store, summary)
    rows = call_rows(summary.task_id, spans)
    own = {(row.trace_id, row.span_id) for row in rows}
    since = max(0, summary.start_ns - BEFORE_NS)
    day = rows_of_calls(store, Selection(since_ns=since, until_ns=summary.end_ns + 1))
    others = (row for row in itertools.islice(day, MOST_CALLS) if (row.trace_id, row.span_id) not in own)
    return itertools.chain(rows, others), own


def _wait(call: SeenCall, wait_ns: int, running: InFlight) -> Wait | CallReason:
    """The wait of a call, or why nothing can be made of it."""
    uncached = _uncached(call)
    if not isinstance(uncached, int):
        return uncached
    if call.has_unseen_reasoning:
        return "hidden_reasoning"
    speed = call.generation_tokens_per_s
    return Wait(
        start_ns=call.start_ns,
        ns=wait_ns,
        uncached_tokens=uncached,
        company=_company(call, wait_ns, running),
        token_ns=1e9 / speed if speed else None,
        connect_ns=call.connect_ns,
    )


def _whole(call: SeenCall, whole_ns: int, running: InFlight) -> Whole | CallReason:
    """The time of a call that came in one piece, or why nothing can be made of it."""
    uncached = _uncached(call)
    if not isinstance(uncached, int):
        return uncached
    if call.output_tokens is None:
        return "no_usage"
    return Whole(whole_ns, uncached, call.output_tokens, _company(call, whole_ns, running))


def _uncached(call: SeenCall) -> int | CallReason:
    """Tokens of the prompt that had to be read."""
    if call.error:
        return "failed"
    if call.input_tokens is None:
        return "no_usage"
    if call.cached_tokens is None:
        return "cache_unknown"
    return max(0, call.input_tokens - call.cached_tokens)


def _company(call: SeenCall, ns: int, running: InFlight) -> float:
    """Other calls in flight on average."""
    return max(0.0, running.mean(call.work_start_ns, call.work_start_ns + ns) - 1.0)


def _row(
    endpoint: Endpoint, divides: Divides, asked: Sequence[_Undivided], learnt: Fit | Unfit
) -> EstimateRow:
    why: Counter[str] = Counter()
    divisions: list[Division] = []
    answered_ns = 0
    for time in asked:
        found = _division(time, learnt)
        if isinstance(found, Division):
            divisions.append(found)
            answered_ns += 0 if isinstance(time, str) else time.ns
        else:
            why[found] += 1
    known = learnt if isinstance(learnt, Fit) else None
    return EstimateRow(
        provider=endpoint.provider,
        model=endpoint.model,
        server=endpoint.server,
        service_tier=endpoint.service_tier,
        divides=divides,
        calls=len(asked),
        answered=len(divisions),
        answered_ns=answered_ns,
        phases_ns=_sums(divisions) if divisions else None,
        reason=None if divisions else _commonest(why),
        not_answered=dict(sorted(why.items())),
        fitted_on=known.calls if known is not None else 0,
        alone=known.alone if known is not None else 0,
        slowed=round(known.slowed, 3) if known is not None and known.slowed is not None else None,
    )


def _division(time: _Undivided, learnt: Fit | Unfit) -> Division | str:
    """What a time was made of, or the reason why nobody can tell."""
    if isinstance(time, str):
        return time
    if isinstance(learnt, Unfit):
        return learnt.reason
    found = learnt.divide(time) if isinstance(time, Wait) else learnt.divide_whole(time)
    return found.reason if isinstance(found, Unfit) else found


def _sums(divisions: Sequence[Division]) -> dict[str, dict[str, int]]:
    """Bounds added up: wider than the interval of the sum, where errors are not all alike."""
    found = {}
    for phase in PHASES:
        intervals = [interval for one in divisions if (interval := getattr(one, phase)) is not None]
        if intervals:
            found[phase] = {
                bound: sum(getattr(interval, bound) for interval in intervals) for bound in Interval._fields
            }
    return found


def _commonest(why: Counter[str]) -> str:
    return min(why, key=lambda reason: (-why[reason], reason))


def _reasons(row: EstimateRow) -> Iterable[str]:
    return row.not_answered


def _name(row: Mapping[str, Any]) -> str:
    model = row["model"] or "an unknown model"
    return f"{model} at {row['server']}" if row["server"] else str(model)
