"""What the export worker does with one call span, beside making the span: python benchmarks/export.py

Prints, in microseconds of CPU of one thread and as a multiple of the first line: a span with the attributes of a
call, made and ended with the SDK alone; queueing it (the part the program waits for); pricing it; pricing it the
long way, by reading all of the span; passing on a span that has no cost; encoding it; and the import of what the
worker needs, once. The lines are measured in turns, so that they meet the same conditions; each is the fastest
of its rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Tracer

from agentprof import _runtime
from agentprof import attributes as a
from agentprof._destinations import ToExporter, encoded
from agentprof._priced import PricedSpan, cost_attributes, priced
from agentprof._processors import ExportProcessor
from agentprof._readable import to_raw
from agentprof._worker import ExportWorker
from agentprof.pricing import Pricer
from agentprof.vocabularies import normalise

ROUNDS = 9
SPANS = 512

START = {
    a.OPERATION: "chat",
    a.SERVER_ADDRESS: "api.openai.com",
    a.PROVIDER: "openai",
    a.REQUEST_MODEL: "gpt-4o-mini",
    a.TASK_ID: "0123456789abcdef0123456789abcdef",
}
END = {
    a.RESPONSE_ID: "chatcmpl-1",
    a.RESPONSE_MODEL: "gpt-4o-mini-2024-07-18",
    a.FINISH_REASONS: ["stop"],
    a.SERVICE_TIER: "default",
    a.INPUT_TOKENS: 4321,
    a.OUTPUT_TOKENS: 987,
    a.CACHE_READ_TOKENS: 0,
    a.REASONING_TOKENS: 0,
    a.ATTEMPTS: 1,
}


class _Nowhere(SpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def make(tracer: Tracer) -> None:
    """One call span."""
    span = tracer.start_span("chat gpt-4o-mini", kind=SpanKind.CLIENT, attributes=START)
    span.set_attributes(END)
    span.end()


def ended() -> list[ReadableSpan]:
    """The same spans, ended."""
    kept: list[ReadableSpan] = []
    processor = ExportProcessor()
    processor.on_end = kept.append  # type: ignore[method-assign]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(_runtime.SCOPE)
    for _ in range(SPANS):
        make(tracer)
    return kept


def the_long_way(span: ReadableSpan, pricer: Pricer) -> ReadableSpan:
    """What `priced` does with every other span."""
    call = pricer.price(normalise(to_raw(span))).call
    assert call is not None
    assert call.cost is not None
    return PricedSpan(span, {**(span.attributes or {}), **cost_attributes(call.cost)})


def main() -> None:
    started = time.process_time_ns()
    pricer = Pricer()
    pricer.table_version  # noqa: B018 (imports the table)
    encoded(ended()[:1])
    imports_ms = (time.process_time_ns() - started) / 1e6

    bare = TracerProvider(shutdown_on_exit=False).get_tracer(_runtime.SCOPE)
    worker = ExportWorker(ToExporter(_Nowhere()))
    worker._thread = None
    spans = ended()
    with_cost = [priced(span, pricer) for span in spans]
    step = ReadableSpan(
        "step", attributes={a.STEP_NAME: "s"}, instrumentation_scope=spans[0].instrumentation_scope
    )

    def queue() -> None:
        worker._queue.clear()
        for span in spans:
            worker.take(span)

    # A worker that neither sleeps nor runs: only the caller's part is measured.
    worker._start = lambda: None  # type: ignore[method-assign]

    lines: dict[str, Callable[[], object]] = {
        "made and ended, SDK alone": lambda: [make(bare) for _ in range(SPANS)],
        "queued, in the program": queue,
        "priced": lambda: [priced(span, pricer) for span in spans],
        "priced the long way": lambda: [the_long_way(span, pricer) for span in spans],
        "passed on without a cost": lambda: [priced(step, pricer) for _ in range(SPANS)],
        "encoded": lambda: encoded(with_cost),
    }
    best = dict.fromkeys(lines, float("inf"))
    for _ in range(ROUNDS):
        for name, work in lines.items():
            began = time.thread_time_ns()
            work()
            best[name] = min(best[name], (time.thread_time_ns() - began) / SPANS / 1000)
    first = best["made and ended, SDK alone"]
    for name, us in best.items():
        print(f"{name:28} {us:8.2f} us  {us / first:5.2f} x")
    print(f"imports of the worker, once  {imports_ms:8.0f} ms CPU")


if __name__ == "__main__":
    main()
