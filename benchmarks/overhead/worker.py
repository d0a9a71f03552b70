"""One subject in a fresh process, run by rounds.py in the subject's environment.

Turns the subject on and answers with what that cost; then answers every workload name read from
standard input with a measurement. Answers are JSON, one a line.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP_S = 0.3
BLOCKS = 20
LEAK_STEPS = 10


class Otel:
    """What a subject's `enable` snippet sees as `otel`. OpenTelemetry is imported on first use."""

    here = str(Path(__file__).parent)

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.flushers: list[Callable[[], Any]] = []
        self._exporter: Any = None

    @property
    def exporter(self) -> Any:
        if self._exporter is None:
            from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

            class CountingExporter(SpanExporter):
                """Counts spans and drops them, or keeps them if asked to."""

                def __init__(self, keep: bool) -> None:
                    self.keep, self.count, self.spans = keep, 0, []

                def export(self, spans: Any) -> Any:
                    self.count += len(spans)
                    if self.keep:
                        self.spans.extend(spans)
                    return SpanExportResult.SUCCESS

            self._exporter = CountingExporter(self.keep)
        return self._exporter

    def processor(self) -> Any:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        processor = BatchSpanProcessor(self.exporter)
        self.flushers.append(processor.force_flush)
        return processor

    def bare_provider(self) -> Any:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        provider = TracerProvider()
        trace.set_tracer_provider(provider)
        self.flushers.append(provider.force_flush)
        return provider

    def provider(self) -> Any:
        provider = self.bare_provider()
        provider.add_span_processor(self.processor())
        return provider

    def flush(self) -> None:
        for flusher in self.flushers:
            flusher()

    @property
    def count(self) -> int:
        return self._exporter.count if self._exporter else 0


def reference_work() -> int:
    """A fixed amount of work (about 1 ms), to see how fast the machine is at the moment."""
    began, table = time.process_time_ns(), {}
    for i in range(40):
        text = json.dumps(
            {"id": i, "text": "lorem ipsum " * 8, "list": [i] * 16, "map": {"a": 1.5, "b": None}}
        )
        table[text[:12]] = sorted(json.loads(text).items(), key=lambda item: item[0])
    return time.process_time_ns() - began


def time_workload(workload: Any, otel: Otel, seconds: float) -> dict:
    """CPU and wall time per call over about `seconds`, after a warm-up that finds the count."""
    n = 1
    while True:
        began = time.perf_counter()
        workload.run(n)
        if (spent := time.perf_counter() - began) >= WARM_UP_S:
            break
        n *= 2
    total = max(1, round(seconds * n / spent))
    blocks = min(total, BLOCKS)
    n = round(total / blocks)
    otel.flush()
    count, cpu, wall = otel.count, 0, 0
    references = [reference_work() for _ in range(BLOCKS // blocks)]
    for block in range(blocks):
        cpu0, wall0 = time.process_time_ns(), time.perf_counter_ns()
        workload.run(n)
        if block == blocks - 1:
            otel.flush()  # the exporter's work belongs to the calls
        cpu += time.process_time_ns() - cpu0
        wall += time.perf_counter_ns() - wall0
        references += [reference_work() for _ in range(BLOCKS // blocks)]
    calls = n * blocks * workload.calls
    return {
        "calls": calls,
        "cpu_us": cpu / calls / 1000,
        "wall_us": wall / calls / 1000,
        "reference_us": sum(references) / len(references) / 1000,
        "spans_per_call": (otel.count - count) / calls,
    }


def check_workload(workload: Any, otel: Otel, tokens: tuple[int, int]) -> dict:
    """What the subject recorded for one run of the workload."""
    spans: list = otel.exporter.spans if otel.count else []
    spans.clear()
    workload.run(1)
    gc.collect()
    otel.flush()
    spans = otel.exporter.spans if otel.count else []

    def numbers(span: Any) -> set[int]:
        """Every number found in attributes about usage or tokens."""
        texts = [str(v) for k, v in (span.attributes or {}).items() if re.search("usage|token", k)]
        return {int(n) for text in texts for n in re.findall(r"\d+", text)}

    def names(pattern: str) -> list[str]:
        found = {k for s in spans for k in (s.attributes or {}) if re.search(pattern, k)}
        found |= {f"event {e.name}" for s in spans for e in s.events if re.search(pattern, e.name.lower())}
        return sorted(found)

    counts = sorted(
        {
            str(v)
            for s in spans
            for k, v in (s.attributes or {}).items()
            if re.search("retr(y|ies)|attempt|resend", k)
        }
    )
    return {
        "spans_per_call": len(spans) / workload.calls,
        "spans_with_tokens_per_call": sum(set(tokens) <= numbers(s) for s in spans) / workload.calls,
        "first_token": names("first_(token|chunk)|first token|ttft|completion_start"),
        "retries": names("retr(y|ies)|attempt|resend"),
        "retry_values": counts,
        "span_names": sorted({s.name for s in spans}),
    }


def rss_kb() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def leak_workload(workload: Any, otel: Otel, calls: int) -> dict:
    """Resident memory over many calls. The first step counts as warm-up."""
    step = max(1, calls // workload.calls // LEAK_STEPS)
    seen = []
    for _ in range(LEAK_STEPS + 1):
        workload.run(step)
        otel.flush()
        gc.collect()
        seen.append(rss_kb())
    measured = step * LEAK_STEPS * workload.calls
    return {"calls": measured, "rss_kb": seen, "bytes_per_call": (seen[-1] - seen[0]) * 1024 / measured}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a subject prints must not mix with the answers

    def answer(value: dict) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    job = json.loads(sys.argv[1])
    if job["cpu"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {job["cpu"]})
    otel = Otel(keep=job["mode"] == "check")
    code = compile(job["enable"], job["subject"], "exec")
    modules, cpu, wall = len(sys.modules), time.process_time_ns(), time.perf_counter_ns()
    exec(code, {"otel": otel})
    enabled = {
        "wall_ms": (time.perf_counter_ns() - wall) / 1e6,
        "cpu_ms": (time.process_time_ns() - cpu) / 1e6,
        "modules": len(sys.modules) - modules,
        "imports_openai": "openai" in sys.modules,
    }
    import openai

    openai.OpenAI(api_key="test").chat.completions  # noqa: B018 (the SDK loads its parts on first use)
    answer(
        enabled
        | {
            "ready_wall_ms": (time.perf_counter_ns() - wall) / 1e6,
            "ready_cpu_ms": (time.process_time_ns() - cpu) / 1e6,
            "ready_modules": len(sys.modules) - modules,
        }
    )
    if job["mode"] != "import":
        import workloads

        tokens = (workloads.INPUT_TOKENS, workloads.OUTPUT_TOKENS)
        built = workloads.build()
        for line in sys.stdin:
            workload = built[line.strip()]
            if job["mode"] == "time":
                answer(time_workload(workload, otel, job["seconds"]))
            elif job["mode"] == "check":
                answer(check_workload(workload, otel, tokens))
            else:
                answer(leak_workload(workload, otel, job["calls"]))
    os._exit(0)  # no exporter's shutdown may delay the next subject


if __name__ == "__main__":
    main()
