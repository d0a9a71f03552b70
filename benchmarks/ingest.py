"""CPU time of one span on its way through a collector, stage by stage, in this process.

    python benchmarks/ingest.py [--requests 40] [--rounds 5] [--own] [--load PATH]

The requests are those of a load generator (`otlp_load.py`, in the folder `shared` beside the repository): tasks
of 21 spans with 20 attributes each, in GenAI names. `--own` takes spans as agentprof writes them instead.
Prints the median of the rounds in microseconds a span, the sum, and how many spans a CPU-second that is. A
collector does the same and has HTTP, queues and threads on top; `benchmarks/receivers.py` measures it whole.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof.config import Config
from agentprof.model import Facts, RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up, tasks_in
from agentprof.vocabularies import normalise
from agentprof_collector.receive.otlp import decode_json, decode_protobuf
from agentprof_collector.recompute import pairs_of
from agentprof_collector.stores import TaskRow, open_store

LOAD = Path(__file__).parents[1].parent / "shared" / "bench" / "otlp_load.py"
SPANS_PER_WRITE = 5_000
TRACES_PER_READ = 250


def load_generator(path: Path) -> ModuleType:
    """The load generator as a module."""
    spec = importlib.util.spec_from_file_location("otlp_load", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"there is no load generator at {path}: name one with --load")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_agentprof(body: bytes) -> bytes:
    """The request with what agentprof writes on calls and tools beside the names of the conventions."""
    request = ExportTraceServiceRequest.FromString(body)
    for span in request.resource_spans[0].scope_spans[0].spans:
        task_id = span.trace_id.hex()
        kept = [pair for pair in span.attributes if pair.key.startswith(("gen_ai.", "server."))]
        del span.attributes[:]
        span.attributes.extend(kept)
        span.attributes.add(key="agentprof.task.id").value.string_value = task_id
        if span.name.startswith("invoke_agent"):
            span.attributes.add(key="agentprof.task.name").value.string_value = "coder"
            span.attributes.add(key="agentprof.task.outcome").value.string_value = "success"
        if span.name == "chat":
            span.attributes.add(key="agentprof.attempts").value.int_value = 1
            for name, seconds in (
                ("connect", 0.02),
                ("queue", 0.001),
                ("prefill", 0.004),
                ("generation", 0.003),
            ):
                span.attributes.add(key=f"agentprof.phase.{name}").value.double_value = seconds
                span.attributes.add(key=f"agentprof.phase_source.{name}").value.string_value = "reported"
            for name, seconds in (
                ("first_token", 0.005),
                ("first_content", 0.005),
                ("inter_token.max", 0.001),
            ):
                span.attributes.add(key=f"agentprof.{name}").value.double_value = seconds
            span.attributes.add(key="agentprof.inter_token.histogram").value.string_value = "10:3,20:40,31:2"
            span.attributes.add(key="agentprof.stream.end").value.string_value = "complete"
            for name, size in (("system", 900), ("tools", 4000), ("user", 312), ("tool_results", 30_000)):
                span.attributes.add(key=f"agentprof.input_bytes.{name}").value.int_value = size
    return request.SerializeToString()


def as_json(body: bytes) -> bytes:
    """The request in OTLP/JSON."""
    from google.protobuf.json_format import MessageToDict

    message = MessageToDict(ExportTraceServiceRequest.FromString(body))
    for group in message["resourceSpans"]:
        for scope_spans in group["scopeSpans"]:
            for span in scope_spans["spans"]:
                # The ids are not looked at, only their size matters.
                span["traceId"] += "a" * 8
    return json.dumps(message).encode()


def pieces(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items in order, so many at once."""
    return (items[at : at + size] for at in range(0, len(items), size))


class Stages:
    """Measures functions, and keeps what they took by name."""

    def __init__(self) -> None:
        self.taken_s: dict[str, list[float]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work; its CPU time counts under the name."""
        began_s = time.process_time()
        made = work()
        self.taken_s.setdefault(name, []).append(time.process_time() - began_s)
        return made


def one_round(stages: Stages, bodies: Sequence[bytes], pricer: Pricer) -> int:
    """All stages over all requests; the number of spans."""

    def decoded() -> list[RawSpan]:
        return [span for body in bodies for span in decode_protobuf(body).spans]

    raw: list[RawSpan] = stages.run("decode", decoded)
    spans: list[Span] = stages.run("normalise", lambda: [normalise(span) for span in raw])
    priced: list[Span] = stages.run("price", lambda: [pricer.price(span) for span in spans])
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "bench.duckdb") as store:

        def write_spans() -> None:
            for arrived_ns, some in enumerate(pieces(priced, SPANS_PER_WRITE), 1):
                store.add_spans(some, pairs_of(some), arrived_ns=arrived_ns)

        def read_back() -> list[Span]:
            return [span for some in pieces(traces, TRACES_PER_READ) for span in store.spans_of(some)]

        def write_rows() -> None:
            for some in pieces(rows, TRACES_PER_READ):
                store.put_tasks(some, {trace for row in some for trace in row.summary.trace_ids})

        stages.run("encode and insert", write_spans)
        traces = sorted({span.trace_id for span in priced})
        found: list[Span] = stages.run("read back", read_back)
        tasks: dict[str, list[Span]] = stages.run("find tasks", lambda: tasks_in(found))
        facts = Facts()
        summaries = stages.run("roll up", lambda: [roll_up(name, own, facts) for name, own in tasks.items()])
        rows = [TaskRow(summary=summary, spans=1, facts=0) for summary in summaries]
        stages.run("write rows", write_rows)
    return len(priced)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own", action="store_true", help="spans as agentprof writes them")
    parser.add_argument("--load", type=Path, default=LOAD, help="the load generator")
    args = parser.parse_args()

    bodies = load_generator(args.load).distinct_requests(args.requests, 7, False)
    if args.own:
        bodies = [as_agentprof(body) for body in bodies]
    texts = [as_json(body) for body in bodies[:5]]
    pricer = Pricer(Config())
    one_round(Stages(), bodies[:2], pricer)  # Imports the price table, and whatever else is done once.

    stages, apart = Stages(), Stages()
    spans = 0
    for _ in range(args.rounds):
        apart.run("protobuf's own parser", lambda: [ExportTraceServiceRequest.FromString(b) for b in bodies])
        apart.run("decode of OTLP/JSON", lambda: [decode_json(text) for text in texts])
        spans = one_round(stages, bodies, pricer)
    total_us = 0.0
    for name, taken_s in stages.taken_s.items():
        us = statistics.median(taken_s) / spans * 1e6
        total_us += us
        print(f"{name:24} {us:8.2f} us a span")
    print(f"{'together':24} {total_us:8.2f} us a span, {1e6 / total_us:,.0f} spans a CPU-second")
    for name, taken_s in apart.taken_s.items():
        of = spans * len(texts) / len(bodies) if "JSON" in name else spans
        print(f"({name:22} {statistics.median(taken_s) / of * 1e6:8.2f} us a span)")


if __name__ == "__main__":
    main()
