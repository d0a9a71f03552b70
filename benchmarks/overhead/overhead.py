#!/usr/bin/env python3
"""Measure what tracing libraries add to calls of the openai SDK, side by side.

overhead.py setup --work DIR [--agentprof PATH]
overhead.py run   --work DIR --out results.json
overhead.py table results.json [leak.json]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from environments import setup
from result_tables import table
from rounds import MODES, WORKLOADS, run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--work", type=Path, required=True, help="folder for virtual environments and caches")
    common.add_argument("--subjects", help="comma-separated; all by default")
    p = commands.add_parser("setup", parents=[common], help="make one virtual environment per subject")
    p.add_argument("--agentprof", type=Path, help="project folder or wheel of agentprof")
    p.add_argument("--fresh", action="store_true", help="make the environments anew")
    p.set_defaults(call=setup)
    p = commands.add_parser("run", parents=[common], help="measure")
    p.add_argument("--out", type=Path, default=Path("results.json"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    p.add_argument("--calls", type=int, default=20000, help="calls of the leak check")
    p.add_argument("--workloads", help="comma-separated; all by default: " + ", ".join(WORKLOADS))
    p.add_argument("--modes", default="import,check,time", help="of " + ", ".join(MODES))
    last = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    p.add_argument("--cpu", type=int, default=last, help="CPU to pin every measurement to")
    p.set_defaults(call=run)
    p = commands.add_parser("table", help="print Markdown")
    p.add_argument("results", type=Path, nargs="+", help="a later file replaces the modes it has")
    p.add_argument("--json", type=Path, help="also write the results with their summary here")
    p.set_defaults(call=table)
    args = parser.parse_args()
    if hasattr(args, "work"):
        args.work = args.work.resolve()
    args.call(args)


if __name__ == "__main__":
    main()
