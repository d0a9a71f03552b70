"""The span of a run, as the request that would be sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentprof import _runtime, attributes
from agentprof._run.notes import Notes
from agentprof._run.process import Ended
from agentprof._run.sdks import named_versions
from agentprof._run.settings import RunSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


def run_span(settings: RunSettings, ended: Ended, notes: Notes) -> ReadableSpan:
    """The span that starts the run's task: from the start of the program to its end."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode

    from agentprof import __version__

    _, trace_id, span_id, _ = settings.traceparent.split("-")
    context = SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))
    failed = ended.exit_code != 0
    return ReadableSpan(
        name=settings.name,
        context=context,
        kind=SpanKind.INTERNAL,
        resource=Resource.create(_resource(settings, notes)),
        instrumentation_scope=InstrumentationScope(_runtime.SCOPE, __version__),
        attributes=_attributes(settings, ended, notes),
        status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
        start_time=ended.start_ns,
        end_time=ended.end_ns,
    )


def _attributes(settings: RunSettings, ended: Ended, notes: Notes) -> dict[str, str | int | float]:
    labels: Mapping[str, str] = {**settings.labels, **(notes.last("labels") or {})}
    said: dict[str, str | int | float] = {
        attributes.TASK_ID: settings.task_id,
        attributes.TASK_NAME: settings.name,
        attributes.TASK_SOURCE: "run",
        attributes.TASK_OUTCOME: notes.last("outcome") or ("failure" if ended.exit_code else "success"),
        attributes.TASK_SPANS: sum(note.spans for note in notes.of_kind("exit")),
        attributes.RUN_SDKS: named_versions(notes.sdks()),
        attributes.RUN_EXIT_CODE: ended.exit_code,
    }
    cut = notes.cut()
    if cut:
        said[attributes.RUN_CUT] = cut
    score = notes.last("score")
    if score is not None:
        said[attributes.TASK_SCORE] = float(score)
    return said | {attributes.LABEL + key: value for key, value in labels.items()}


def _resource(settings: RunSettings, notes: Notes) -> dict[str, str]:
    known = dict(settings.resource)
    first = next(iter(notes.outermost()), None)
    if first is not None:
        known["process.runtime.version"] = first.python
    return known
