"""Seconds to add up one task of many spans, by shape and number of spans.

python benchmarks/rollup.py [SPANS ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from agentprof.model import Call, Span, TaskMark, Usage
from agentprof.rollup import roll_up

Shape = Callable[[int], list[Span]]


def _span(i: int, start: int, end: int, parent: str, kind: str = "model") -> Span:
    known = Call(model="m", usage=Usage(input=10, output=5), response_id=f"r{i}") if kind == "model" else None
    return Span(
        trace_id="1" * 32,
        span_id=f"{i:016x}",
        parent_id=parent,
        start_ns=start,
        end_ns=end,
        kind=kind,  # type: ignore[arg-type]
        title=kind,
        call=known,
    )


def overlapping_siblings(n: int) -> list[Span]:
    """All below the task, each running over thousands of others."""
    return [_span(i, i, i + 2 * n + i % 7, "root") for i in range(n)]


def siblings_in_a_row(n: int) -> list[Span]:
    """A loop of calls."""
    return [_span(i, 4 * i, 4 * i + 3, "root") for i in range(n)]


def a_chain(n: int) -> list[Span]:
    """Each step inside the one before."""
    return [_span(i, i, 4 * n - i, f"{i - 1:016x}" if i else "root", "step") for i in range(n)]


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [2_500, 10_000, 40_000]
    for shape in (overlapping_siblings, siblings_in_a_row, a_chain):
        for n in sizes:
            root = Span(
                trace_id="1" * 32,
                span_id="root",
                start_ns=0,
                end_ns=4 * n,
                kind="task",
                task=TaskMark(id="t", name="t", starts=True),
            )
            spans = [root, *shape(n)]
            began = time.perf_counter()
            roll_up("t", spans)
            spent_s = time.perf_counter() - began
            print(f"{shape.__name__:22} {n:7,} spans  {spent_s:7.3f} s  {spent_s / n * 1e6:6.1f} µs a span")


if __name__ == "__main__":
    main()
