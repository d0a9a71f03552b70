"""Count the instructions that a subject adds to a call, with callgrind: steady on a busy machine.

    python instructions.py --work DIR --subjects none,bare-span,agentprof,agentprof-own --workloads chat

Each subject and workload has a fresh process, which counts blocks of runs after a warm-up, the export of their
spans included; given are the mean over the blocks and its standard error. What the imports left is kept out of
garbage collection, or its rare full passes would drown everything. `bare-span-even` is bare-span with as many
attributes as agentprof's span has in the workload. A program under callgrind is about fifty times slower, a clock
is not: exporters that work every so many seconds would do so after every few calls, so their pauses are stretched
for all, and so is the time after which agentprof takes a program for a slow reader. `DIR` is that of `overhead.py
setup`; besides valgrind with its headers a C compiler is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from environments import BASE, FLOOR, HERE, python_of, subjects
from result_tables import markdown

BLOCKS = 5
RUNS = {"chat-large": 2, "chat-stream": 2, "responses-stream": 2, "chat-async": 1, "chat-stream-async": 1}
"""Runs of a workload in a block; of others 40."""
SLOWNESS = 50
"""How much slower a program is under callgrind, roughly."""
SDK_PAUSE_MS = 5000
"""What the batch processor of the SDK waits by itself."""
EVEN = "bare-span-even"
ENABLE_EVEN = "import bare_span; bare_span.enable(otel.provider(), {attributes})"

MARKS = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void stop(void) { CALLGRIND_STOP_INSTRUMENTATION; }
void dump(void) { CALLGRIND_DUMP_STATS; }
"""

BEGIN = """
import ctypes, gc, json, os, sys
sys.path.insert(0, {here!r})
from worker import Otel
otel = Otel({keep})
exec({enable!r}, {{"otel": otel}})
if worker := sys.modules.get("agentprof._worker"):
    worker.DELAY_S *= {slowness}
if streams := sys.modules.get("agentprof._streams"):
    streams.SLOW_NS *= {slowness}
import workloads
found = workloads.build()[{workload!r}]
"""

ATTRIBUTES = """
found.run(1)
otel.flush()
print(len(otel.exporter.spans[-1].attributes))
sys.stdout.flush()
os._exit(0)
"""

COUNT = """
marks = ctypes.CDLL({marks!r})
found.run(max(50 // found.calls, 1))
otel.flush()
gc.collect()
gc.freeze()
marks.start()
for _ in range({blocks}):
    found.run({runs})
    otel.flush()
    marks.dump()
marks.stop()
print(found.calls)
sys.stdout.flush()
os._exit(0)
"""


class Count(NamedTuple):
    """Instructions of a call, and the standard error of that."""

    mean: float
    error: float

    def beyond(self, base: Count) -> Count:
        """What this is more than another."""
        return Count(self.mean - base.mean, (self.error**2 + base.error**2) ** 0.5)


def run(command: list[str | Path], env: dict[str, str], what: str) -> str:
    """Run a process in an environment made from nothing, and give what it printed."""
    fixed = {
        "PATH": os.defpath,
        "HOME": tempfile.gettempdir(),
        "PYTHONHASHSEED": "0",
        "OTEL_BSP_SCHEDULE_DELAY": str(SDK_PAUSE_MS * SLOWNESS),
    }
    done = subprocess.run(command, env=fixed | env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{what}: {done.stderr[-500:]}")
    return done.stdout


def begin(enable: str, workload: str, *, keep: bool) -> str:
    """Code that sets a subject and a workload up."""
    return BEGIN.format(here=str(HERE), keep=keep, enable=enable, slowness=SLOWNESS, workload=workload)


def attributes_of(work: Path, subject: str, workload: str) -> int:
    """How many attributes the last span of a call has."""
    table = subjects(subject)[subject]
    code = begin(table["enable"], workload, keep=True) + ATTRIBUTES
    return int(run([python_of(work, subject), "-c", code], table.get("env", {}), subject).split()[-1])


def counted(python: Path, subject: dict, workload: str, marks: Path, profile: Path | None) -> Count:
    """Instructions of a call in one process, over blocks of runs.

    Args:
        profile: Keep the output of callgrind under this name, for `callgrind_annotate`.
    """
    runs = RUNS.get(workload, 40)
    code = begin(subject["enable"], workload, keep=False)
    code += COUNT.format(marks=str(marks), blocks=BLOCKS, runs=runs)
    with tempfile.TemporaryDirectory() as folder:
        out = profile or Path(folder) / "out"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        printed = run([*valgrind, python, "-c", code], subject.get("env", {}), f"{python}, {workload}")
        calls = int(printed.split()[-1])
        blocks = []
        for number in range(1, BLOCKS + 1):
            found = re.search(
                r"^(?:totals|summary): (\d+)", Path(f"{out}.{number}").read_text(), re.MULTILINE
            )
            assert found is not None
            blocks.append(int(found[1]) / runs / calls)
    return Count(mean(blocks), stdev(blocks) / len(blocks) ** 0.5)


def main() -> None:
    """Count and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the environments")
    parser.add_argument("--subjects", help=f"default: all, and {EVEN}")
    parser.add_argument("--workloads", default="chat,responses,chat-async,chat-retry,chat-stream")
    parser.add_argument("--profile", type=Path, help="folder to keep callgrind's output in")
    parser.add_argument("--out", type=Path, help="JSON file of the counts; those it has already are kept")
    args = parser.parse_args()
    work = args.work.resolve()
    workloads = args.workloads.split(",")
    chosen = args.subjects.split(",") if args.subjects else [BASE, FLOOR, EVEN, *subjects(None)]
    every = subjects(None)
    counts: dict[str, dict[str, Count]] = {}
    if args.out is not None and args.out.exists():
        known = json.loads(args.out.read_text())
        counts = {name: {w: Count(*c) for w, c in row.items()} for name, row in known.items()}
    marks = Path(tempfile.mkdtemp()) / "marks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", marks, "-xc", "-"], input=MARKS, text=True, check=True)
    for workload in workloads:
        for name in dict.fromkeys(chosen):
            if name == EVEN:
                attributes = attributes_of(work, "agentprof", workload)
                subject = every[FLOOR] | {"enable": ENABLE_EVEN.format(attributes=attributes)}
                print(f"{workload}: {attributes} attributes", file=sys.stderr)
            else:
                subject = every[name]
            profile = args.profile / f"{name}.{workload}" if args.profile else None
            python = python_of(work, FLOOR if name == EVEN else name)
            count = counted(python, subject, workload, marks, profile)
            counts.setdefault(name, {})[workload] = count
            print(f"{workload} {name} {count.mean:,.0f} ±{count.error:,.0f}", file=sys.stderr, flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(counts, indent=1) + "\n")
    print(table(counts, workloads))


def table(counts: dict[str, dict[str, Count]], workloads: list[str]) -> str:
    """Instructions added to a call, as Markdown."""
    rows = [["instructions added to a call", *workloads]]
    for name, found in counts.items():
        row = [f"{name} (whole call)" if name == BASE else name]
        for workload in workloads:
            count, base = found.get(workload), counts.get(BASE, {}).get(workload)
            if count is None:
                row.append("–")
                continue
            if name != BASE and base is not None:
                count = count.beyond(base)
            row.append(f"{count.mean:,.0f} ±{count.error:,.0f}")
        rows.append(row)
    return markdown(rows)


if __name__ == "__main__":
    main()
