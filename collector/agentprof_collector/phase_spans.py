"""Draws the phases of calls, and tools that no span tells of, as spans: a trace view shows what the summary says.

A trace view has no picture for what happens inside a span. The spans made here illustrate the call above them:
they are marked as evidence, carry no durations and name no task, so that a collector that receives them
counts nothing twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from agentprof import attributes as a
from agentprof.model import Span
from agentprof.rollup import plain_tree
from agentprof.rollup.phases import Segment, fill_phases
from agentprof.rollup.profile import profiled
from agentprof.rollup.tree import Node, Tree

SCOPE: Final = "agentprof_collector.phases"
LATER: Final = " (later)"
"""Ends the names of phases that were known when others of the same call had been sent."""
_LATEST_NS: Final = 2**63 - 1
_TRACE_ID = re.compile("[0-9a-f]{32}")
_SPAN_ID = re.compile("[0-9a-f]{16}")


class CallPhases(NamedTuple):
    """The phases of one call as spans, or the tools whose time was another span's."""

    key: bytes
    """Trace id and span id of the call or other span."""
    service: str | None
    """`service.name` of the process that made the call."""
    spans: tuple[ProtoSpan, ...]
    """Its children, in their order; phases fill a call exactly."""
    is_later: bool = False
    """Others of this call were sent before, and what has them keeps them."""


def phase_spans(task_id: str, spans: Iterable[Span]) -> list[CallPhases]:
    """The phases of every ended call of a task, after its reports are joined, and its inferred tools.

    Calls whose ids are no OTLP ids have none. The same spans give the same phase spans, byte for byte.

    Raises:
        ValueError: there are no spans.
    """
    tree = plain_tree(task_id, spans)
    drawn = [_drawn(node) for node in sorted(tree.of_kind("model"), key=lambda node: node.order)]
    return [*(phases for phases in drawn if phases is not None and phases.spans), *_drawn_tools(tree)]


def _drawn_tools(tree: Tree) -> list[CallPhases]:
    """What nothing marks, below the spans whose time it took."""
    if not any(node.call is not None and node.call.tool_result_ids for node in tree.of_kind("model")):
        return []
    by_span: dict[bytes, CallPhases] = {}
    for tool in profiled(tree).inferred:
        key = _key(tool.row)
        if key is None:
            continue
        made = ProtoSpan(
            trace_id=key[:16],
            span_id=_span_id(key, tool.name, tool.start),
            parent_span_id=key[16:],
            name=f"{tool.name} (inferred)",
            kind=ProtoSpan.SPAN_KIND_INTERNAL,
            start_time_unix_nano=tool.start,
            end_time_unix_nano=tool.end,
            attributes=[
                _text(a.EVIDENCE, "phase"),
                _text(a.PHASE_SPAN_NAME, "tool"),
                _text(a.PHASE_SPAN_SOURCE, "inferred"),
            ],
        )
        known = by_span.get(key)
        before = known.spans if known is not None else ()
        by_span[key] = CallPhases(key, tool.row.span.service, (*before, made))
    return list(by_span.values())


def _key(node: Node) -> bytes | None:
    """The ids of a span as they are on the wire; None where they are none of OTLP, or it has not ended."""
    span = node.span
    if span.end_ns is None or not _TRACE_ID.fullmatch(span.trace_id) or not _SPAN_ID.fullmatch(span.span_id):
        return None
    if not 0 < node.start <= node.end <= _LATEST_NS:  # 0 is no time on the wire
        return None
    return bytes.fromhex(span.trace_id + span.span_id)


def as_request(calls: Sequence[CallPhases]) -> bytes:
    """The phase spans as one encoded OTLP request, a resource for each service; later ones say so in their names."""
    request = ExportTraceServiceRequest()
    by_service: dict[str | None, list[ProtoSpan]] = {}
    for call in calls:
        spans = [_named_later(span) for span in call.spans] if call.is_later else call.spans
        by_service.setdefault(call.service, []).extend(spans)
    for service, spans in by_service.items():
        of_resource = request.resource_spans.add()
        if service is not None:
            of_resource.resource.attributes.append(_text("service.name", service))
        of_scope = of_resource.scope_spans.add()
        of_scope.scope.name = SCOPE
        of_scope.spans.extend(spans)
    return request.SerializeToString(deterministic=True)


def _named_later(span: ProtoSpan) -> ProtoSpan:
    found = ProtoSpan()
    found.CopyFrom(span)
    found.name += LATER
    return found


def _drawn(node: Node) -> CallPhases | None:
    """None for a call that cannot be drawn: it has not ended, or its ids or times are none of OTLP."""
    key = _key(node)
    if key is None:
        return None
    segments = _segments(node)
    statuses = _statuses(node, segments)
    seen: dict[str, int] = {}
    spans: list[ProtoSpan] = []
    at = node.start
    for segment in segments:
        index = seen.get(segment.name, 0)
        seen[segment.name] = index + 1
        made = ProtoSpan(
            trace_id=key[:16],
            span_id=_span_id(key, segment.name, index),
            parent_span_id=key[16:],
            name=segment.name,
            kind=ProtoSpan.SPAN_KIND_INTERNAL,
            start_time_unix_nano=at,
            end_time_unix_nano=at + segment.ns,
            attributes=[
                _text(a.EVIDENCE, "phase"),
                _text(a.PHASE_SPAN_NAME, segment.name),
                _text(a.PHASE_SPAN_SOURCE, segment.source),
            ],
        )
        if segment.name == "failed_attempt":
            made.status.code = Status.STATUS_CODE_ERROR
            if index < len(statuses):
                made.attributes.append(_text(a.ERROR_TYPE, statuses[index]))
        spans.append(made)
        at += segment.ns
    return CallPhases(key, node.span.service, tuple(spans))


def _segments(node: Node) -> tuple[Segment, ...]:
    length = node.end - node.start
    if node.call is not None:
        return fill_phases(node.call, length).segments
    return (Segment("model", length, "observed"),) if length else ()


def _statuses(node: Node, segments: Sequence[Segment]) -> list[str]:
    """What each failed attempt ended with, where every one of them has a segment."""
    known = [attempt.status for attempt in node.call.failed_attempts] if node.call is not None else []
    failed = sum(segment.name == "failed_attempt" for segment in segments)
    return known if len(known) == failed and all(known) else []


def _span_id(call: bytes, phase: str, index: int) -> bytes:
    """The same for the same phase of the same call, whoever draws it."""
    return hashlib.blake2b(
        call + f"{phase}.{index}".encode(), digest_size=8, person=b"agentprof.phase"
    ).digest()


def _text(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))
