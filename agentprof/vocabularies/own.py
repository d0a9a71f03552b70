"""Reads what only agentprof writes: the mark of a task, phases, attempts, cost and token gaps."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any, cast

from agentprof import attributes as a
from agentprof._gaps import HIGHEST, LOWEST
from agentprof._names import LABELS, NAME_CHARS, VALUE_CHARS
from agentprof.dialects import Answer
from agentprof.engines import LATE_QUEUE_FIELDS, headers
from agentprof.model import (
    MEDIA,
    SOURCES,
    UNPRICED,
    Cost,
    Energy,
    EnergySource,
    FailedAttempt,
    Outcome,
    Phase,
    Source,
    TaskMark,
    TaskSource,
)
from agentprof.money import EXACT
from agentprof.vocabularies import values

_PHASES = ("queue", "prefill", "wait", "generation", "model", "connect", "network", "client")
_TOGETHER = ("wait", "model")
_FAULTS = 16
_TELLING_HEADERS = tuple(a.HEADER + name for name in headers.TELLING)
_SECTIONS = ("system", "tools", "tool_results", "user", "assistant")
_MAX_J = 1e9
"""More than any call takes."""
_TASK_SOURCES = ("declared", "run", "framework", "trace")


def task_mark(own: Mapping[str, Any]) -> TaskMark | None:
    """The task a span names, with all its marks if the span starts it."""
    task_id = values.identity(own.get(a.TASK_ID))
    if task_id is None:
        return None
    name = values.text(own.get(a.TASK_NAME))
    if name is None:
        return TaskMark(id=task_id)
    outcome = own.get(a.TASK_OUTCOME)
    source = own.get(a.TASK_SOURCE)
    return TaskMark(
        id=task_id,
        starts=True,
        name=name,
        parent_id=values.identity(own.get(a.TASK_PARENT_ID)),
        outcome=cast("Outcome", outcome) if outcome in ("success", "failure") else None,
        score=values.number(own.get(a.TASK_SCORE)),
        source=cast("TaskSource", source) if source in _TASK_SOURCES else "declared",
        labels=_labels(own),
        spans=values.count(own.get(a.TASK_SPANS)),
        cut=values.count(own.get(a.RUN_CUT)) or 0,
    )


def _labels(own: Mapping[str, Any]) -> dict[str, str]:
    """The labels, with the bounds they have where the library makes them: others may send any number."""
    found: dict[str, str] = {}
    for key, value in sorted(own.items()):
        if len(found) == LABELS:
            break
        if key.startswith(a.LABEL) and (label := values.text(value)) is not None:
            found.setdefault(key[len(a.LABEL) :][:NAME_CHARS], label[:VALUE_CHARS])
    return found


def phases(own: Mapping[str, Any]) -> dict[str, Phase]:
    """The measured parts of a call, no remainders: an observed `wait` or `model`, what is derived from no field."""
    found: dict[str, Phase] = {}
    for name in _PHASES:
        ns = values.seconds_as_ns(own.get(a.PHASE + name))
        source = own.get(a.PHASE_SOURCE + name, "observed")
        field = values.text(own.get(a.PHASE_FIELD + name))
        if ns is None or source not in SOURCES or (source == "derived" and field is None):
            continue
        if name in _TOGETHER and source not in ("reported", "joined"):
            continue
        found[name] = Phase(ns=ns, source=cast("Source", source), field=field)
    return found


def heard(own: Mapping[str, Any], found: dict[str, Phase]) -> tuple[str | None, tuple[str, ...]]:
    """Add what headers said of the server's time; who answered by them, and what of it cannot be."""
    if not any(name in own for name in _TELLING_HEADERS):
        return None, ()
    told = {
        name[len(a.HEADER) :]: text
        for name in own
        if name.startswith(a.HEADER) and (text := values.text(own[name])) is not None
    }
    answer = Answer()
    answer.phases = found
    headers.read(told, answer, None)
    return answer.engine, answer.timing_faults


def timing_faults(own: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the reported times cannot be."""
    return values.texts(own.get(a.TIMING_FAULTS))[:_FAULTS]


def queue_starts_late(found: Mapping[str, Phase]) -> bool:
    """Whether the queue was read from a field that starts after the request's arrival."""
    queue = found.get("queue")
    return queue is not None and queue.field in LATE_QUEUE_FIELDS


def failed_attempts(own: Mapping[str, Any]) -> tuple[FailedAttempt, ...]:
    """The attempts that did not give the answer, in order."""
    durations = values.list_of_seconds_as_ns(own.get(a.ATTEMPT_DURATION))
    backoffs = values.list_of_seconds_as_ns(own.get(a.ATTEMPT_BACKOFF))
    statuses = own.get(a.ATTEMPT_STATUS)
    statuses = list(statuses) if isinstance(statuses, (list, tuple)) else []
    return tuple(
        FailedAttempt(
            duration_ns=duration,
            backoff_ns=backoffs[i] if i < len(backoffs) else 0,
            status=(values.text(statuses[i]) if i < len(statuses) else None) or "",
        )
        for i, duration in enumerate(durations)
    )


def cost(own: Mapping[str, Any]) -> Cost | None:
    """The price a span already carries, or the reasons why it has none."""
    amount = values.usd(own.get(a.COST))
    said = values.texts(own.get(a.COST_UNPRICED))
    unpriced = tuple(reason for reason in said if reason in UNPRICED)
    if amount is None:
        return Cost(unpriced=unpriced) if unpriced else None
    source = values.text(own.get(a.COST_SOURCE))
    classes = {
        key[len(a.COST_CLASS) :]: part
        for key, value in sorted(own.items())
        if key.startswith(a.COST_CLASS) and (part := values.usd(value)) is not None
    }
    with localcontext(EXACT):
        if sum(classes.values(), Decimal(0)) != amount:
            classes = {"tool" if source == "given" else "reported": amount}
    return Cost(
        amount_usd=amount,
        by_class_usd=classes,
        source=source,
        priced_as=values.text(own.get(a.COST_PRICED_AS)),
        table=values.text(own.get(a.COST_TABLE)),
        unpriced=unpriced,
    )


def energy(own: Mapping[str, Any]) -> Energy | None:
    """The energy a span already carries; what is no interval of joules, or does not say of what, is none."""
    bounds = [values.number(own.get(name)) for name in (a.ENERGY_LOW, a.ENERGY_HIGH)]
    source = own.get(a.ENERGY_SOURCE)
    boundary, covers = values.text(own.get(a.ENERGY_BOUNDARY)), values.text(own.get(a.ENERGY_COVERS))
    if source not in ("config", "ecologits") or boundary is None or covers is None:
        return None
    low_uj, high_uj = (None if j is None or not 0 <= j <= _MAX_J else round(j * 1e6) for j in bounds)
    if low_uj is None or high_uj is None or low_uj > high_uj:
        return None
    return Energy(
        low_uj=low_uj,
        high_uj=high_uj,
        source=cast("EnergySource", source),
        boundary=boundary,
        covers=covers,
        basis=values.text(own.get(a.ENERGY_BASIS)),
    )


def server_tools(own: Mapping[str, Any]) -> dict[str, int]:
    """Uses of tools that ran at the provider, by kind."""
    return {
        key[len(a.SERVER_TOOLS) :]: uses
        for key, value in sorted(own.items())
        if key.startswith(a.SERVER_TOOLS) and (uses := values.count(value))
    }


def of_usage(own: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the usage beside its counts."""
    found: dict[str, Any] = {}
    if values.flag(own.get(a.USAGE_ESTIMATED)):
        found["estimated"] = True
    if values.flag(own.get(a.USAGE_TOTAL_DIFFERS)):
        found["total_differs"] = True
    for name, key in (("billed_input", a.BILLED_INPUT_TOKENS), ("billed_output", a.BILLED_OUTPUT_TOKENS)):
        if key in own:
            found[name] = values.count(own[key])
    return found


def media(own: Mapping[str, Any]) -> dict[str, int]:
    """Tokens that are sound or images."""
    return {name: tokens for name in MEDIA if (tokens := values.count(own.get(a.MEDIA_TOKENS + name)))}


def input_bytes(own: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the sections of a request."""
    return {
        name: size for name in _SECTIONS if (size := values.count(own.get(a.INPUT_BYTES + name))) is not None
    }


def histogram(own: Mapping[str, Any]) -> dict[int, int]:
    """Gaps between token chunks by bucket; a part that is no `index:count` is left out."""
    found: dict[int, int] = {}
    written = own.get(a.INTER_TOKEN_HISTOGRAM)
    if not isinstance(written, str):
        return found
    for part in written[: values.TEXT_LIMIT * 4].split(","):
        index, _, times = part.partition(":")
        try:
            bucket, uses = int(index), int(times)
        except ValueError:
            continue
        if LOWEST <= bucket < HIGHEST and 0 < uses <= 10**9:
            found[bucket] = found.get(bucket, 0) + uses
    return found
