"""Spans per CPU-second of OTLP receivers under one load, in turns: agentprof and what stands beside it.

    python benchmarks/receivers.py [--rounds 3] [--spans 100000] [--only agentprof ...]
    python benchmarks/receivers.py --sustained 300      one collector under load, its memory every 15 s
    python benchmarks/receivers.py --until-summary 200  time from a task's end to its summary

The load is `otlp_load.py` in the folder `shared` beside the repository (`--load` names another): OTLP/HTTP, protobuf,
tasks of 21 spans with 20 attributes each. agentprof has decoded, priced and committed the spans to DuckDB and
written the summaries of their tasks. The OpenTelemetry Collector batches them and writes JSON to a file, Jaeger
writes them to badger; both as `scripts/build_go` builds them, left out where it has not. Last, protobuf alone:
the same requests parsed in this process, and every attribute looked at. Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ingest import LOAD, load_generator
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).parents[1]
START_S = 60.0
SAMPLE_S = 15.0

OTELCOL = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%(otlp)d", max_request_body_size: 67108864}}}}
processors: {batch: {}}
exporters: {file: {path: "%(folder)s/spans.json"}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], processors: [batch], exporters: [file]}}
"""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def built(name: str) -> str | None:
    """The program `scripts/build_go` built; None if it has not."""
    command = [sys.executable, str(ROOT / "scripts" / "build_go"), "--print-path", name]
    found = subprocess.run(command, capture_output=True, text=True)
    return None if found.returncode else found.stdout.strip()


class Receiver:
    """A receiver in a process of its own: how it is started, and where it takes OTLP/HTTP."""

    def __init__(
        self, command: Sequence[str], otlp_port: int, page_port: int | None = None, **env: str
    ) -> None:
        self.otlp_port = otlp_port
        self.page_port = page_port
        self._command = list(command)
        self._environment = os.environ | env

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """The id of its process, once it takes connections."""
        process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + START_S
            while True:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"it does not start: {' '.join(self._command)}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.otlp_port)):
                    break
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def agentprof(folder: Path) -> Receiver:
    """agentprof collect on a new file."""
    page, otlp, grpc = free_ports(3)
    command = [sys.executable, "-m", "agentprof", "collect", "--db", str(folder / "agentprof.duckdb")]
    command += ["--port", str(page), "--otlp-http-port", str(otlp), "--otlp-grpc-port", str(grpc)]
    return Receiver(command, otlp, page)


def otelcol(folder: Path) -> Receiver | None:
    """The OpenTelemetry Collector: otlp, batch, file."""
    program = built("otelcol")
    (port,) = free_ports(1)
    config = folder / "otelcol.yaml"
    config.write_text(OTELCOL % {"otlp": port, "folder": folder})
    return Receiver([program, "--config", str(config)], port) if program else None


def jaeger(folder: Path) -> Receiver | None:
    """Jaeger with badger, in the configuration of this repository."""
    program = built("jaeger")
    names = ("OTLP_HTTP_LISTEN", "OTLP_GRPC_LISTEN", "HEALTH", "QUERY_HTTP", "QUERY_GRPC")
    ports = free_ports(len(names) + 1)
    places = {f"JAEGER_{name}": f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
    places |= {"JAEGER_DATA": str(folder), "JAEGER_UI_CONFIG": str(ROOT / "collector" / "jaeger-ui.json")}
    metrics = {"JAEGER_METRICS_HOST": "127.0.0.1", "JAEGER_METRICS_PORT": str(ports[-1])}
    command = [program or "", "--config", str(ROOT / "collector" / "jaeger.yaml")]
    return Receiver(command, ports[0], **places, **metrics) if program else None


RECEIVERS: dict[str, Callable[[Path], Receiver | None]] = {
    "otelcol": otelcol,
    "jaeger": jaeger,
    "agentprof": agentprof,
}


def load(path: Path, pid: int, port: int, spans: int, seed: int) -> dict[str, Any]:
    """What the load generator says of one run."""
    url = f"http://127.0.0.1:{port}/v1/traces"
    options = ["--pid", str(pid), "--url", url, "--spans", str(spans), "--seed", str(seed)]
    done = subprocess.run([sys.executable, str(path), *options], check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def bare(path: Path, spans: int, seed: int) -> dict[str, float]:
    """Spans per CPU-second of parsing alone, and of looking at every attribute too."""
    generator = load_generator(path)
    bodies = generator.distinct_requests(-(-spans // generator.SPANS_PER_REQUEST), seed, False)
    count = len(bodies) * generator.SPANS_PER_REQUEST
    began_s = time.process_time()
    for body in bodies:
        ExportTraceServiceRequest.FromString(body)
    parsed_s = time.process_time() - began_s
    began_s = time.process_time()
    for body in bodies:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (span for scope in group.scope_spans for span in scope.spans):
                {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}
    looked_s = time.process_time() - began_s
    return {"protobuf, parsed": count / parsed_s, "protobuf, attributes read": count / looked_s}


def in_turns(args: argparse.Namespace) -> None:
    """The table of all receivers."""
    rates: dict[str, list[float]] = {}
    peaks_mb: dict[str, list[float]] = {}
    for number in range(args.rounds):
        for name in args.only or RECEIVERS:
            with tempfile.TemporaryDirectory() as folder:
                receiver = RECEIVERS[name](Path(folder))
                if receiver is None:
                    print(f"{name} is not built: scripts/build_go {name}", file=sys.stderr)
                    continue
                with receiver.running() as pid:
                    load(args.load, pid, receiver.otlp_port, 10_000, 1)  # What is done once, is done.
                    said = load(args.load, pid, receiver.otlp_port, args.spans, 7 + number)
            rates.setdefault(name, []).append(said["spans_per_cpu_s"])
            peaks_mb.setdefault(name, []).append(said["peak_rss_mb"])
            print(f"round {number + 1}: {name} {json.dumps(said)}", file=sys.stderr)
        for name, rate in bare(args.load, min(args.spans, 30_000), 7 + number).items():
            rates.setdefault(name, []).append(rate)
    print(f"{'spans per CPU-second':28}{'median':>10}{'least':>10}{'most':>10}{'peak MB':>10}")
    for name, found in rates.items():
        peak = f"{max(peaks_mb[name]):10,.0f}" if name in peaks_mb else ""
        print(f"{name:28}{statistics.median(found):10,.0f}{min(found):10,.0f}{max(found):10,.0f}{peak}")


def resident_mb(pid: int) -> float:
    """Megabytes of memory a process holds now."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def sustained(args: argparse.Namespace) -> None:
    """Load without pause, and what the collector holds meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        receiver = agentprof(Path(folder))
        with receiver.running() as pid:
            done = threading.Event()

            def sample() -> None:
                began_s = time.monotonic()
                while not done.wait(SAMPLE_S):
                    print(f"{time.monotonic() - began_s:6.0f} s {resident_mb(pid):8,.0f} MB", flush=True)

            thread = threading.Thread(target=sample)
            thread.start()
            until, seed, spans = time.monotonic() + args.sustained, 100, 0
            while time.monotonic() < until:
                spans += load(args.load, pid, receiver.otlp_port, args.spans, seed)["spans"]
                seed += 1
            done.set()
            thread.join()
            size_mb = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
            print(
                f"{spans:,} spans stored, {size_mb:,.0f} MB on disk, {resident_mb(pid):,.0f} MB resident at the end"
            )


def one_task(generator: Any, rng: Any) -> tuple[bytes, str]:
    """A request with one task, and its id."""
    body, trace_ids = generator.request(rng)
    message = ExportTraceServiceRequest.FromString(body)
    spans = message.resource_spans[0].scope_spans[0].spans
    own = [span for span in spans if span.trace_id == trace_ids[0]]
    del spans[:]
    trace_id = rng.randbytes(16)
    for span in own:
        span.trace_id = trace_id
        spans.append(span)
    return message.SerializeToString(), f"trace:{trace_id.hex()}"


def until_summary(args: argparse.Namespace) -> None:
    """From sending the last span of a task to its row, where nobody asks for it; and to its summary when asked."""
    import random

    generator, rng = load_generator(args.load), random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        receiver = agentprof(Path(folder))
        with receiver.running() as pid:
            page = f"http://127.0.0.1:{receiver.page_port}"

            def send(body: bytes) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", receiver.otlp_port)
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                if connection.getresponse().status != 200:
                    raise SystemExit("the collector did not take a task")
                connection.close()

            def rows_written() -> float:
                with urllib.request.urlopen(f"{page}/metrics") as answer:
                    lines = answer.read().decode().splitlines()
                return next(
                    float(line.split()[1])
                    for line in lines
                    if line.startswith("agentprof_tasks_added_up_total")
                )

            def asked_for(task_id: str) -> None:
                with urllib.request.urlopen(f"{page}/api/v1/tasks/{task_id}") as answer:
                    if json.load(answer)["calls"] != 10:
                        raise SystemExit("a summary lacks calls")

            def measured(wait: Callable[[str, float], None]) -> list[float]:
                times_s = []
                for _ in range(args.until_summary):
                    body, task_id = one_task(generator, rng)
                    before = rows_written()
                    began_s = time.monotonic()
                    send(body)
                    wait(task_id, before)
                    times_s.append(time.monotonic() - began_s)
                return times_s

            def for_row(task_id: str, before: float) -> None:
                while rows_written() == before:
                    time.sleep(0.005)

            show("unasked, idle", measured(for_row))
            show("asked for, idle", measured(lambda task_id, before: asked_for(task_id)))
            stop = threading.Event()

            def keep_loaded() -> None:
                seed = 500
                while not stop.is_set():
                    load(args.load, pid, receiver.otlp_port, 50_000, seed)
                    seed += 1

            thread = threading.Thread(target=keep_loaded)
            thread.start()
            show("asked for, under full load", measured(lambda task_id, before: asked_for(task_id)))
            stop.set()
            thread.join()


def show(name: str, times_s: Sequence[float]) -> None:
    """A line of quantiles."""
    ordered = sorted(times_s)
    p50, p99 = ordered[len(ordered) // 2], ordered[max(0, -(-len(ordered) * 99 // 100) - 1)]
    print(f"{name:28} n {len(ordered):4}  p50 {p50 * 1e3:7.0f} ms  p99 {p99 * 1e3:7.0f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spans", type=int, default=100_000, help="of one run")
    parser.add_argument("--only", nargs="*", choices=list(RECEIVERS))
    parser.add_argument("--sustained", type=float, metavar="SECONDS")
    parser.add_argument("--until-summary", type=int, metavar="TASKS")
    parser.add_argument("--load", type=Path, default=LOAD, help="the load generator")
    args = parser.parse_args()
    if args.sustained:
        sustained(args)
    elif args.until_summary:
        until_summary(args)
    else:
        in_turns(args)


if __name__ == "__main__":
    main()
