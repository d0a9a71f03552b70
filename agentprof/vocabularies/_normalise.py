"""The one function from a span as sent to a span as understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentprof import attributes as a
from agentprof.model import MEDIA, Call, Evidence, RawSpan, Span, SpanKind, Tool, Usage
from agentprof.vocabularies import engines, langfuse, own, values
from agentprof.vocabularies._reading import Reading, reading_of

_CLIENT, _SERVER = 3, 2
_ERROR = 2
_NOTHING: Mapping[str, Any] = {}
_MEDIA = frozenset(MEDIA)
_TOKENS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")

# Deprecated provider names, with today's spelling
# (open-telemetry/semantic-conventions-genai, docs/gen-ai/non-normative/migration.md).
_PROVIDER_NOW = {
    "az.ai.openai": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "vertex_ai": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "xai": "x_ai",
}

# What the resource says of the run, by the name in the summary.
_RUN = {
    "git_sha": "vcs.ref.head.revision",
    "dirty": a.RUN_DIRTY,
    "host": "host.name",
    "python": "process.runtime.version",
    "agentprof": "telemetry.distro.version",
    "sdks": a.RUN_SDKS,
}


def normalise(raw: RawSpan) -> Span:
    """A span as understood, whatever vocabulary it came in.

    Pure, and total: a value that cannot be read is absent. Only the fields of `Span` are kept, so that
    prompts, answers, tool arguments and headers in the attributes of other tools go no further.
    """
    found = raw.attributes
    reading = reading_of(found)
    fields = {
        field: value for field, name in reading.fields if (value := found[name]) is not None and value != ""
    }
    ours = {name: found[name] for name in reading.own} if reading.own else _NOTHING

    mark = own.task_mark(ours) if ours else None
    starts = mark is not None and mark.starts
    kind = "task" if starts else _kind(found, reading)
    engine = engines.engine_of_scope(raw.scope) or reading.engine
    evidence: Evidence | None = None
    if (role := _evidence_role(raw, reading, kind, ours)) is not None:
        evidence = _evidence(role, ours)
    elif engine is not None and kind == "other":
        evidence = _engine_evidence(engine, raw, found)
    if evidence is not None:
        kind = "evidence"
    return Span(
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_id=raw.parent_id or None,
        name=raw.name[: values.TEXT_LIMIT],
        start_ns=raw.start_ns,
        end_ns=raw.end_ns,
        kind=kind,
        title=_title(kind, raw.name, fields, mark.name if mark else None),
        error=raw.status == _ERROR,
        error_type=values.name(fields["error_type"]) if "error_type" in fields else None,
        scope=raw.scope[: values.TEXT_LIMIT],
        service=values.text(raw.resource.get("service.name")),
        attributes_count=len(found) if raw.attributes_count is None else raw.attributes_count,
        task=mark,
        call=_call(raw, found, engine, fields, ours) if kind == "model" else None,
        tool=_tool(fields, ours) if kind == "tool" else None,
        evidence=evidence,
        server_side=raw.kind == _SERVER or (engine is not None and raw.kind != _CLIENT),
        engine=engine.name if engine is not None else None,
        whole=engine is not None and engine.whole,
        run=_run(raw) if starts else {},
    )


def _kind(found: Mapping[str, Any], reading: Reading) -> SpanKind:
    for name, kinds in reading.kind_rules:
        value = found[name]
        if isinstance(value, str) and (kind := kinds.get(value.lower())) is not None:
            return kind
    for name, kind in reading.has_rules:
        if found[name] not in (None, ""):
            return kind
    return "other"


def _evidence_role(raw: RawSpan, reading: Reading, kind: SpanKind, ours: Mapping[str, Any]) -> Any:
    if (role := ours.get(a.EVIDENCE)) in ("phase", "attempt"):
        return role
    return "http" if kind == "other" and reading.is_request and raw.kind == _CLIENT else None


def _title(kind: SpanKind, name: str, fields: Mapping[str, Any], task_name: str | None) -> str:
    match kind:
        case "task":
            title = task_name
        case "model":
            title = _model(fields)
        case "tool":
            title = values.text(fields.get("tool_name")) or values.text(fields.get("step_name"))
            if title is None and (method := values.text(fields.get("mcp_method"))) is not None:
                title = values.text(name.rpartition(f"{method} ")[2])
        case "agent":
            title = values.text(fields.get("agent_name")) or values.text(fields.get("step_name"))
        case "step" | "human":
            title = values.text(fields.get("step_name"))
        case _:
            title = None
    return title or name[: values.TEXT_LIMIT]


def _model(fields: Mapping[str, Any]) -> str | None:
    return values.text(fields.get("model")) or values.text(fields.get("request_model"))


def _tool(fields: Mapping[str, Any], ours: Mapping[str, Any]) -> Tool:
    call_id = values.text(fields.get("tool_call_id"))
    is_mcp = "mcp_method" in fields
    if not ours:
        return Tool(call_id=call_id, mcp=is_mcp)
    fingerprint = values.text(ours.get(a.FINGERPRINT_ARGUMENTS))
    return Tool(call_id=call_id, cost=own.cost(ours), fingerprint=fingerprint, mcp=is_mcp)


def _call(
    raw: RawSpan,
    found: Mapping[str, Any],
    engine: engines.EngineSpans | None,
    fields: Mapping[str, Any],
    ours: Mapping[str, Any],
) -> Call:
    text, provider = values.text, values.text(fields.get("provider"))
    known = _own_call(ours) if ours else {}
    if engine is not None and not known.get("phases"):
        known["engine"] = engine.name
        if engine.read is not None:
            times = engines.checked(engine.read(found), _length_ns(raw))
            known.update(
                phases=times.phases, queue_starts_late=times.queue_starts_late, timing_faults=times.faults
            )
    if "cost" in fields:
        known.setdefault("reported_cost_usd", values.usd(fields["cost"]))
    elif langfuse.COST in fields:
        known.setdefault("reported_cost_usd", langfuse.cost_in(fields[langfuse.COST]))
    return Call(
        model=_model(fields),
        request_model=text(fields.get("request_model")),
        provider=_PROVIDER_NOW.get(provider, provider) if provider else None,
        server=_server(fields),
        operation=text(fields.get("operation")),
        response_id=text(fields.get("response_id")),
        request_id=text(fields.get("request_id")),
        usage=_usage(fields, ours),
        finish_reasons=values.texts(fields.get("finish_reasons")),
        stream=values.flag(fields.get("stream")),
        service_tier=text(fields.get("service_tier")),
        **known,
    )


def _own_call(ours: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a call that only agentprof's own spans have."""
    given = own.cost(ours)
    phases = own.phases(ours)
    engine, faults = own.heard(ours, phases)
    known: dict[str, Any] = {
        "tool_calls": values.texts(ours.get(a.TOOL_CALLS)),
        "tool_call_ids": values.texts(ours.get(a.TOOL_CALL_IDS)),
        "tool_result_ids": values.texts(ours.get(a.TOOL_RESULT_IDS)),
        "stream_end": values.text(ours.get(a.STREAM_END)),
        "energy": own.energy(ours) if a.ENERGY_LOW in ours else None,
        "attempts": values.count(ours.get(a.ATTEMPTS)) or None,
        "failed_attempts": own.failed_attempts(ours),
        "first_token_ns": values.seconds_as_ns(ours.get(a.FIRST_TOKEN)),
        "first_content_ns": values.seconds_as_ns(ours.get(a.FIRST_CONTENT)),
        "phases": phases,
        "queue_starts_late": own.queue_starts_late(phases),
        "engine": values.text(ours.get(a.ENGINE)) or engine,
        "timing_faults": (*own.timing_faults(ours), *faults),
        "inter_token_histogram": own.histogram(ours),
        "inter_token_max_ns": values.seconds_as_ns(ours.get(a.INTER_TOKEN + "max")),
        "input_bytes": own.input_bytes(ours),
        "tools_offered": values.count(ours.get(a.TOOLS_OFFERED)),
        "fingerprint": values.text(ours.get(a.FINGERPRINT_REQUEST)),
        "prefixes": values.texts(ours.get(a.FINGERPRINT_PREFIX)),
    }
    if given is not None and given.source == "reported":
        known["reported_cost_usd"] = given.amount_usd
    elif given is not None:
        known["cost"] = given
    return known


def _server(fields: Mapping[str, Any]) -> str | None:
    address, port = values.text(fields.get("server_address")), values.count(fields.get("server_port"))
    return f"{address}:{port}" if address and port is not None else address


def _usage(fields: Mapping[str, Any], ours: Mapping[str, Any]) -> Usage | None:
    found: dict[str, Any] = {}
    for name in _TOKENS:
        if name in fields and (tokens := values.count(fields[name])) is not None:
            found[name] = tokens
    if not found and langfuse.USAGE in fields:
        found = langfuse.usage_in(fields[langfuse.USAGE])
    tools = own.server_tools(ours) if ours else {}
    if not found and not tools:
        return None
    cached = found.get("cache_read", 0) + found.get("cache_write", 0)
    if cached and found.get("input", cached) < cached:
        # A part cannot be larger than the whole: this producer counts cached tokens beside the input.
        found["input"] += cached
    media = own.media(ours) if ours else {}
    if not _MEDIA.isdisjoint(fields):
        for name in MEDIA:
            if name in fields and (tokens := values.count(fields[name])):
                media.setdefault(name, tokens)
    if ours:
        found |= own.of_usage(ours)
    return Usage(**found, server_tools=tools, media=media)


def _engine_evidence(engine: engines.EngineSpans, raw: RawSpan, found: Mapping[str, Any]) -> Evidence:
    """What a span inside an engine says, or is, of the request it serves."""
    stage = engine.stages.get(raw.name)
    if stage is None and engine.marked is not None and all(mark in found for mark in engine.marks):
        stage = engine.marked
    if engine.read is None or not engine.marks or any(mark not in found for mark in engine.marks):
        return Evidence(role="engine", stage=stage)
    times = engines.checked(engine.read(found), _length_ns(raw))
    return Evidence(
        role="engine",
        phases=times.phases,
        queue_starts_late=times.queue_starts_late,
        stage=stage,
        timing_faults=times.faults,
    )


def _length_ns(raw: RawSpan) -> int | None:
    return None if raw.end_ns is None else raw.end_ns - raw.start_ns


def _evidence(role: Any, ours: Mapping[str, Any]) -> Evidence:
    found = own.phases(ours)
    return Evidence(role=role, phases=found, queue_starts_late=own.queue_starts_late(found))


def _run(raw: RawSpan) -> dict[str, str]:
    """SDKs stand on the span where they were not imported yet when the resource was made."""
    said = dict(raw.resource)
    if a.RUN_SDKS in raw.attributes:
        said[a.RUN_SDKS] = raw.attributes[a.RUN_SDKS]
    return {key: found for key, name in _RUN.items() if (found := values.text(said.get(name))) is not None}
