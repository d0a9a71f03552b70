"""What a program's run time owes to the state of its collector: python benchmarks/program_time.py [ROUNDS] [CALLS]

One program makes calls with the openai SDK (an answer at once, without a network), in a process of its own, under four
conditions in turns: agentprof off; its collector present, absent (nothing listens), slow (each answer takes 5 s).
Prints, in ms, the median over the rounds, the lowest and the highest, and the difference to the collector present with
its standard error, paired by round: of `cpu`, what the thread that calls has computed; of `work`, the time from the
first call to the last; of `whole`, from the start of the process to its exit. While other work keeps the machine busy
only the first says much.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

SLOW_S = 5.0
CONDITIONS = ("off", "present", "absent", "slow")

PROGRAM = """
import json, sys, time
import httpx2, openai
calls, endpoint = int(sys.argv[1]), sys.argv[2]
if endpoint != "off":
    import agentprof
    agentprof.instrument(endpoint=endpoint)
answer = json.loads(sys.argv[3])
transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=answer))
client = openai.OpenAI(base_url="http://model/v1", api_key="x", http_client=httpx2.Client(transport=transport))
messages = [{"role": "user", "content": "Say hello."}]
client.chat.completions.create(model="gpt-4o-mini", messages=messages)
began, worked = time.perf_counter(), time.thread_time()
for _ in range(calls):
    client.chat.completions.create(model="gpt-4o-mini", messages=messages)
print(time.perf_counter() - began, time.thread_time() - worked)
"""
ANSWER = (
    '{"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini-2024-07-18", "choices": '
    '[{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}], '
    '"usage": {"prompt_tokens": 100, "completion_tokens": 6, "total_tokens": 106}}'
)


class Took(NamedTuple):
    """Seconds of one run."""

    cpu: float
    work: float
    whole: float


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wait_s = 0.0

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(self.wait_s)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()


class _SlowReceiver(_Receiver):
    wait_s = SLOW_S


@contextmanager
def receiver(kind: type[_Receiver]) -> Iterator[str]:
    """A collector that takes everything, and keeps nothing."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def run(endpoint: str, calls: int) -> Took:
    """One run of the program, with an empty spool."""
    with tempfile.TemporaryDirectory() as spool:
        environment = {**os.environ, "AGENTPROF_SPOOL": spool, "NO_PROXY": "*"}
        command = [sys.executable, "-c", PROGRAM, str(calls), endpoint, ANSWER]
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        work, cpu = map(float, done.stdout.split())
        return Took(cpu, work, time.perf_counter() - began)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    took: dict[str, list[Took]] = {name: [] for name in CONDITIONS}
    with receiver(_Receiver) as present, receiver(_SlowReceiver) as slow:
        endpoints = {"off": "off", "present": present, "absent": nobody(), "slow": slow}
        for number in range(rounds):
            # Each condition comes at each place in turn, so that none has the warm machine for itself.
            order = CONDITIONS[number % len(CONDITIONS) :] + CONDITIONS[: number % len(CONDITIONS)]
            for name in order:
                took[name].append(run(endpoints[name], calls))
    print(f"{calls} calls, {rounds} rounds, ms")
    for field in Took._fields:
        print(f"{field:8} {'median':>8} {'lowest':>8} {'highest':>8} {'less present':>16}")
        for name in CONDITIONS:
            times = [getattr(one, field) * 1000 for one in took[name]]
            against = [getattr(one, field) * 1000 for one in took["present"]]
            paired = [a - b for a, b in zip(times, against, strict=True)]
            error = statistics.stdev(paired) / len(paired) ** 0.5 if len(paired) > 1 else 0.0
            difference = f"{statistics.mean(paired):8.0f} ± {error:<5.0f}" if name != "present" else ""
            print(
                f"{name:8} {statistics.median(times):8.0f} {min(times):8.0f} {max(times):8.0f} {difference:>16}"
            )


if __name__ == "__main__":
    main()
