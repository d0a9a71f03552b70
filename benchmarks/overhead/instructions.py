"""Count the instructions that a subject adds to a call, with callgrind: steady on a busy machine.

    python instructions.py --work DIR --subjects none,bare-span,agentprof,agentprof-own --workloads chat

Each subject and workload runs in two fresh processes, which count two numbers of runs after a warm-up; the
difference of the counts over that of the calls is what a call takes, export included. What the imports left
is kept out of garbage collection, or its rare full passes would drown everything. `DIR` is that of
`overhead.py setup`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from overhead import BASE, FLOOR, HERE, markdown, python_of, subjects

RUNS = {
    "chat-large": (2, 12),
    "chat-stream": (2, 12),
    "responses-stream": (2, 12),
    "chat-async": (1, 4),
    "chat-stream-async": (1, 2),
}
"""Runs of a workload in the short and the long process; of others 20 and 120."""
PEERS = "openllmetry,openinference,otel-genai"

CHILD = """
import gc, os, subprocess, sys, tomllib
sys.path.insert(0, {here!r})
import worker
otel = worker.Otel(False)
exec(tomllib.loads(open({here!r} + "/subjects.toml").read())[{subject!r}]["enable"], {{"otel": otel}})
import workloads
found = workloads.build()[{workload!r}]

def count(state):
    control = subprocess.Popen(["callgrind_control", "-i", state, str(os.getpid())], stdout=2)
    while control.poll() is None:  # callgrind listens only while the process works
        pass

found.run(3)
otel.flush()
gc.collect()
gc.freeze()
count("on")
found.run({runs})
otel.flush()
count("off")
print(found.calls, flush=True)
os._exit(0)
"""


def counted(python: Path, subject: str, workload: str, runs: int, env: dict[str, str]) -> tuple[int, int]:
    """Instructions of one process, and calls of one run."""
    code = CHILD.format(here=str(HERE), subject=subject, workload=workload, runs=runs)
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    with tempfile.NamedTemporaryFile() as log:
        done = subprocess.run(
            [*valgrind, f"--log-file={log.name}", python, "-c", code],
            env={"PATH": os.defpath, "HOME": tempfile.gettempdir(), "PYTHONHASHSEED": "0", **env},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{subject}, {workload}: {done.stderr[-500:]}")
        found = re.search(r"Collected : (\d+)", Path(log.name).read_text())
    assert found is not None
    return int(found[1]), int(done.stdout.split()[-1])


def main() -> None:
    """Count and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the environments")
    parser.add_argument("--subjects", default=f"none,bare-span,{PEERS},agentprof,agentprof-own")
    parser.add_argument("--workloads", default="chat,responses,chat-async,chat-retry,chat-stream")
    args = parser.parse_args()
    workloads = args.workloads.split(",")
    per_call: dict[str, dict[str, float]] = {}
    for workload in workloads:
        few, many = RUNS.get(workload, (20, 120))
        for name, subject in subjects(args.subjects).items():
            python, env = python_of(args.work.resolve(), name), subject.get("env", {})
            low, calls = counted(python, name, workload, few, env)
            high, _ = counted(python, name, workload, many, env)
            per_call.setdefault(name, {})[workload] = (high - low) / (many - few) / calls
            print(f"{workload} {name} {per_call[name][workload]:,.0f}", file=sys.stderr, flush=True)
    base, floor = per_call.get(BASE, {}), per_call.get(FLOOR, {})
    rows = [["instructions added to a call", *workloads]]
    for name, found in per_call.items():
        row = [f"{name} (whole call)" if name == BASE else name]
        for workload, count in found.items():
            added = count if name == BASE else count - base.get(workload, 0)
            row.append(f"{added:,.0f}")
            if base and floor and name not in (BASE, FLOOR):
                row[-1] += f" ({added / (floor[workload] - base[workload]):.2f}×)"
        rows.append(row)
    print(markdown(rows))


if __name__ == "__main__":
    main()
