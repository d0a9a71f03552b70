"""What it costs to join engine spans to calls by request id.

    python benchmarks/joins.py [--calls 1000000] [--tasks 250]

Stores so many ids of calls, then asks for the traces of 250 of them as adding up does, and adds up tasks of eight
calls whose engine spans stand once in the traces of the tasks and once in traces of their own. Prints CPU
time of all threads: ms for a question, and microseconds a span to add up.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from agentprof.model import Call, Phase, Span, TaskMark
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, open_store

CALLS_PER_TASK = 8
ROUNDS = 9
AT_ONCE = 20_000


def a_call(number: int, trace: str, parent: str | None) -> Span:
    """A call that an engine knows by its response id."""
    known = Call(model="m", response_id=f"chatcmpl-{number:016x}", first_token_ns=300)
    start = 1_000 * number
    return Span(
        trace_id=trace,
        span_id=f"{number:016x}",
        parent_id=parent,
        name="chat",
        start_ns=start,
        end_ns=start + 900,
        kind="model",
        call=known,
    )


def an_engine(number: int, trace: str, parent: str | None) -> Span:
    """What the engine says of it."""
    phases = {"queue": Phase(ns=100, source="joined"), "prefill": Phase(ns=100, source="joined")}
    return Span(
        trace_id=trace,
        span_id=f"e{number:015x}",
        parent_id=parent,
        name="llm_request",
        start_ns=5_000 * number,
        end_ns=5_000 * number + 800,
        kind="model",
        call=Call(request_id=f"chatcmpl-{number:016x}", phases=phases),
        engine="vllm",
        server_side=True,
    )


def tasks(count: int, first: int, *, apart: bool) -> list[Span]:
    """Tasks with their calls and engine spans, these in traces of their own or not."""
    spans: list[Span] = []
    for task in range(count):
        trace, begin = f"{first + task:032x}", first + task * CALLS_PER_TASK
        mark = TaskMark(id=f"t{first + task}", starts=True, name="task")
        start, end = 1_000 * begin, 1_000 * (begin + CALLS_PER_TASK)
        root = Span(trace_id=trace, span_id="root", start_ns=start, end_ns=end, kind="task", task=mark)
        spans.append(root)
        for number in range(begin, begin + CALLS_PER_TASK):
            spans.append(a_call(number, trace, "root"))
            own = f"{number:031x}f" if apart else trace
            spans.append(an_engine(number, own, None if apart else f"{number:016x}"))
    return spans


def fill(store: Store, calls: int) -> None:
    """Many calls of before, a trace each."""
    for at in range(0, calls, AT_ONCE):
        store.add_spans([a_call(at + n, f"{at + n:032x}", None) for n in range(min(AT_ONCE, calls - at))], [])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=250)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "joins.duckdb") as store:
        fill(store, args.calls)
        store.add_spans([an_engine(args.calls, "e" * 32, None)], [])
        step = max(1, args.calls // 250)
        ids = [f"chatcmpl-{number:016x}" for number in range(0, args.calls, step)][:250]
        for what, asked in (("engines of 250 calls", ([], ids)), ("calls of 250 engine spans", (ids, []))):
            taken = []
            for _ in range(ROUNDS):
                began = time.process_time()
                store.traces_by_id(*asked)
                taken.append(time.process_time() - began)
            print(f"{what:28} {statistics.median(taken) * 1e3:8.2f} ms among {args.calls:,} calls")
        for name, apart in (("in the traces of their tasks", False), ("in traces of their own", True)):
            spans = tasks(args.tasks, 10**9 if apart else 2 * 10**9, apart=apart)
            store.add_spans(spans, pairs_of(spans))
            began = time.process_time()
            recompute(store, {span.trace_id for span in spans})
            us = (time.process_time() - began) / len(spans) * 1e6
            print(f"engine spans {name:28} {us:8.1f} us a span to add up")


if __name__ == "__main__":
    main()
