"""CPU seconds to add up what is in a trace, by shape and size, and how they grow.

    python benchmarks/rollup.py [SIZE ...] [--shape NAME ...]
    python benchmarks/rollup.py --beside FOLDER     another checkout does the same in turns, and the ratio is given

The shapes are those of `tests/support/shapes.py`; most have one or two spans for each unit of size. What a summary,
the rows of calls and a waterfall take is added together.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.shapes import SHAPES, Shape  # noqa: E402

from agentprof.rollup import roll_up, tasks_in  # noqa: E402
from agentprof.rollup.calls import call_rows  # noqa: E402
from agentprof.rollup.waterfall import waterfall  # noqa: E402

SIZES = (1_000, 4_000)
ROWS = 1_000


def seconds(shape: Shape, size: int) -> tuple[int, float]:
    """Spans, and the CPU time of this process for them."""
    spans = shape(size)
    began = time.process_time()
    tasks = tasks_in(spans)
    for task_id, own in tasks.items():
        roll_up(task_id, own)
    largest = max(tasks, key=lambda task_id: len(tasks[task_id]))
    call_rows(largest, tasks[largest])
    waterfall(largest, tasks[largest], ROWS)
    return len(spans), time.process_time() - began


def of_other(folder: str, shape: Shape, size: int) -> float:
    """The same seconds of the `agentprof` in another folder."""
    command = [sys.executable, __file__, "--only-seconds", "--shape", shape.__name__, str(size)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": folder}, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def main() -> None:
    names = [shape.__name__ for shape in SHAPES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="SIZE")
    parser.add_argument("--shape", action="append", choices=names, metavar="NAME")
    parser.add_argument("--beside", metavar="FOLDER")
    parser.add_argument("--only-seconds", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    for shape in SHAPES:
        if asked.shape and shape.__name__ not in asked.shape:
            continue
        before: float | None = None
        for size in asked.sizes:
            spans, spent_s = seconds(shape, size)
            if asked.only_seconds:
                print(spent_s)
                continue
            line = f"{shape.__name__:26} {spans:9,} spans {spent_s:8.3f} s {spent_s / spans * 1e6:8.1f} µs a span"
            line += "" if before is None else f"  {spent_s / before:5.1f} times the size before"
            if asked.beside:
                other_s = of_other(asked.beside, shape, size)
                line += f"  other {other_s:8.3f} s, {other_s / spent_s:6.1f} times"
            print(line, flush=True)
            before = spent_s


if __name__ == "__main__":
    main()
