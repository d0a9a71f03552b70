#!/usr/bin/env python3
"""Measure what tracing libraries add to calls of the openai SDK, side by side.

overhead.py setup --work DIR [--agentprof PATH]
overhead.py run   --work DIR --out results.json
overhead.py table results.json [leak.json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
WORKLOADS = {
    "chat": "chat, small",
    "chat-large": "chat, 100 kB request, 60 kB response",
    "chat-stream": "chat stream, 200 chunks",
    "responses": "responses, small",
    "responses-stream": "responses stream, 200 deltas",
    "chat-async": "chat, small, async, 50 at once",
    "chat-stream-async": "chat stream, 200 chunks, async, 50 at once",
    "chat-retry": "chat, 429, 429, 200",
}
LEAK_WORKLOADS = ["chat", "responses"]
MODES = ["import", "check", "time", "leak"]
BASE, FLOOR = "none", "bare-span"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def subjects(only: str | None) -> dict[str, dict]:
    every = tomllib.loads((HERE / "subjects.toml").read_text())
    chosen = only.split(",") if only else list(every)
    if unknown := set(chosen) - set(every):
        sys.exit(f"unknown subject: {', '.join(sorted(unknown))}")
    return {name: every[name] for name in every if name in chosen}


def python_of(work: Path, name: str) -> Path:
    table = tomllib.loads((HERE / "subjects.toml").read_text()).get(name, {})
    return work / "venvs" / table.get("venv", name) / "bin" / "python"


# ---- setup ----


def setup(args: argparse.Namespace) -> None:
    for name, subject in subjects(args.subjects).items():
        if "venv" in subject:
            continue
        if subject.get("path") and not args.agentprof:
            say(f"{name}: skipped, no --agentprof PATH given")
            continue
        python = python_of(args.work, name)
        if args.fresh:
            shutil.rmtree(args.work / "venvs" / name, ignore_errors=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", args.work / "venvs" / name], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        say(f"{name}: installing")
        if subject.get("path"):
            path = args.agentprof.resolve()
            subprocess.run([*pip, path, *subject["requires"]], check=True)
            # Once more, so that a changed source under the same version number is taken.
            subprocess.run([*pip, "--force-reinstall", "--no-deps", path], check=True)
        else:
            subprocess.run([*pip, *subject["requires"]], check=True)
        if subject.get("no_deps"):
            subprocess.run([*pip, "--no-deps", *subject["no_deps"]], check=True)


def missing(work: Path, name: str, subject: dict) -> str | None:
    """Why the subject cannot run, or None."""
    python = python_of(work, name)
    if not python.exists():
        return "not set up"
    module = subject.get("module")
    if module and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
        return f"{module} cannot be imported"
    return None


def versions(work: Path, name: str) -> dict[str, str]:
    out = subprocess.run(
        [python_of(work, name), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {p["name"]: p["version"] for p in json.loads(out) if p["name"] not in ("pip", "setuptools")}


# ---- run ----


class Worker:
    """A fresh process with one subject turned on. `failed` says why it cannot answer any more."""

    def __init__(self, args: argparse.Namespace, name: str, subject: dict, mode: str) -> None:
        job = {
            "subject": name,
            "mode": mode,
            "enable": subject["enable"],
            "cpu": args.cpu,
            "seconds": args.seconds,
            "calls": args.calls,
        }
        home = args.work / "home"
        home.mkdir(parents=True, exist_ok=True)
        self.name, self.mode, self.log = name, mode, args.work / f"{name}.log"
        # The environment is built from nothing, so that no outside setting leaks in.
        env = {
            "PATH": os.defpath,
            "HOME": str(home),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **subject.get("env", {}),
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python_of(args.work, name), HERE / "worker.py", json.dumps(job)],
                env=env,
                cwd=home,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.failed: str | None = None
        self.enabled = self._answer()

    def _answer(self) -> dict:
        if line := self.process.stdout.readline():
            return json.loads(line)
        self.process.wait()
        lines = self.log.read_text().strip().splitlines() or ["no message"]
        self.failed = lines[-1]
        say(f"{self.name}: {self.mode} failed: {self.failed} (see {self.log})")
        return {"error": self.failed}

    def ask(self, workload: str) -> dict:
        if self.failed:
            return {"error": self.failed}
        self.process.stdin.write(workload + "\n")
        self.process.stdin.flush()
        return self._answer()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def run(args: argparse.Namespace) -> None:
    chosen = subjects(args.subjects)
    workloads = args.workloads.split(",") if args.workloads else list(WORKLOADS)
    if unknown := set(workloads) - set(WORKLOADS):
        sys.exit(f"unknown workload: {', '.join(sorted(unknown))}")
    modes = args.modes.split(",")
    result: dict[str, Any] = {
        "meta": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "rounds": args.rounds,
            "seconds": args.seconds,
            "date": time.strftime("%Y-%m-%d"),
        },
        "skipped": {},
        "versions": {},
        "notes": {},
        "import": {},
        "check": {},
        "time": {},
        "leak": {},
    }
    for name in list(chosen):
        if why := missing(args.work, name, chosen[name]):
            say(f"{name}: skipped, {why}")
            result["skipped"][name] = why
            del chosen[name]
        else:
            result["versions"][name] = versions(args.work, name)
            result["notes"][name] = chosen[name].get("note", "")

    def save() -> None:
        args.out.write_text(json.dumps(result, indent=1) + "\n")

    if "check" in modes:
        for name, subject in chosen.items():
            say(f"check {name}")
            with Worker(args, name, subject, "check") as worker:
                result["check"][name] = {w: worker.ask(w) for w in workloads}
    if "import" in modes:
        for number in range(-1, args.rounds):  # the first one only fills the caches
            say(f"import, round {number + 1} of {args.rounds}")
            for name, subject in chosen.items():
                with Worker(args, name, subject, "import") as worker:
                    if number >= 0 and not worker.failed:
                        result["import"].setdefault(name, []).append(worker.enabled)
    if "time" in modes:
        for number in range(args.rounds):
            with contextlib.ExitStack() as stack:
                workers = {n: stack.enter_context(Worker(args, n, s, "time")) for n, s in chosen.items()}
                for workload in workloads:  # all subjects at one workload lie close together in time
                    say(f"time, round {number + 1} of {args.rounds}, {workload}")
                    for name, worker in workers.items():
                        seen = worker.ask(workload)
                        if "error" not in seen:
                            rows = result["time"].setdefault(name, {}).setdefault(workload, [])
                            rows.append({"round": number, **seen})
            save()
    if "leak" in modes:
        for name, subject in chosen.items():
            say(f"leak {name}")
            with Worker(args, name, subject, "leak") as worker:
                result["leak"][name] = {w: worker.ask(w) for w in LEAK_WORKLOADS if w in workloads}
            save()
    save()


# ---- table ----


def by_round(result: dict, name: str, workload: str, key: str) -> dict[int, float]:
    return {row["round"]: row[key] for row in result["time"].get(name, {}).get(workload, [])}


def even_out(result: dict) -> None:
    """Add `cpu_even_us`: CPU time scaled by how fast a fixed piece of work ran during the measurement.

    On a shared machine the speed of a CPU changes by a factor of two within minutes.
    """
    rows = [row for work in result["time"].values() for rows in work.values() for row in rows]
    best = min((row["reference_us"] for row in rows), default=0)
    for row in rows:
        row["cpu_even_us"] = row["cpu_us"] * best / row["reference_us"]


def added(result: dict, name: str, workload: str, key: str) -> tuple[float, float] | None:
    """What the subject adds to the plain SDK in the same round: median, and its standard error."""
    mine, base = by_round(result, name, workload, key), by_round(result, BASE, workload, key)
    more = [mine[r] - base[r] for r in set(mine) & set(base)]
    if not more:
        return None
    middle = median(more)
    spread = 1.4826 * median(abs(x - middle) for x in more)  # as the standard deviation, but robust
    return middle, 1.2533 * spread / len(more) ** 0.5


def summary(result: dict) -> dict:
    """The numbers of the time tables: workload -> subject -> figures."""
    out: dict[str, dict] = {}
    for workload in WORKLOADS:
        for name in result["time"]:
            row: dict[str, Any] = {}
            for key in ("cpu_even_us", "cpu_us", "wall_us"):
                mine = list(by_round(result, name, workload, key).values())
                floor = list(by_round(result, FLOOR, workload, key).values())
                if not mine:
                    continue
                more, floor_more = added(result, name, workload, key), added(result, FLOOR, workload, key)
                known = key == "cpu_even_us" and more and floor_more and floor_more[0] > 2 * floor_more[1]
                row[key] = {
                    "median": median(mine),
                    "min": min(mine),
                    "max": max(mine),
                    "added": more and more[0],
                    "error": more and more[1],
                    "ratio": median(mine) / median(floor) if floor else None,
                    "added_ratio": more[0] / floor_more[0] if known else None,
                }
            if row:
                row["spans_per_call"] = median(by_round(result, name, workload, "spans_per_call").values())
                out.setdefault(workload, {})[name] = row
    return out


def markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body]) + "\n"


HOW_TO_READ = """Even CPU time is CPU time scaled to the fastest speed of the machine seen in the run: a fixed piece of
work is timed between the blocks of every measurement. "Added" is the median over the rounds of the
difference to the plain SDK in the same round, with a rough standard error; "(2.0×)" means twice what
bare-span adds, and is left out where that is within the noise. Plain CPU and wall time are as noisy as the
machine was.
"""


def num(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def more(cell: dict) -> str:
    if cell.get("added") is None:
        return "–"
    return f"{cell['added']:+.0f} ±{cell['error']:.0f}"


def overview(times: dict, key: str) -> str:
    names = list(dict.fromkeys(name for rows in times.values() for name in rows))
    table = [["subject", *times]]
    for name in names:
        cells = [times[w].get(name, {}).get(key, {}) for w in times]
        if name == BASE:
            table.append([f"{name} (whole call)", *(num(c.get("median")) for c in cells)])
        else:
            table.append(
                [
                    name,
                    *(
                        more(c) + (f" ({c['added_ratio']:.1f}×)" if c.get("added_ratio") is not None else "")
                        for c in cells
                    ),
                ]
            )
    return markdown(table)


def detail(rows: dict) -> str:
    table = [["subject"]]
    for what in ("even CPU", "CPU", "wall"):
        table[0] += [f"{what} µs", "min–max", "added", "÷ bare-span"]
    table[0].append("spans/call")
    for name, row in rows.items():
        cells = [name]
        for key in ("cpu_even_us", "cpu_us", "wall_us"):
            c = row[key]
            cells += [num(c["median"]), f"{num(c['min'])}–{num(c['max'])}", more(c), num(c["ratio"], 2)]
        table.append([*cells, num(row["spans_per_call"], 2)])
    return markdown(table)


def import_table(result: dict) -> str:
    table = [
        [
            "subject",
            "enable: CPU ms",
            "min",
            "wall ms",
            "min",
            "modules",
            "loads openai at once",
            "until first client: CPU ms",
            "min",
            "wall ms",
            "min",
            "modules",
            "more modules than none",
        ]
    ]
    base = result["import"].get(BASE)
    for name, rows in result["import"].items():
        cells = [name]
        for prefix in ("", "ready_"):
            for key in ("cpu_ms", "wall_ms"):
                values = [r[prefix + key] for r in rows]
                cells += [num(median(values)), num(min(values))]
            cells.append(str(rows[-1][prefix + "modules"]))
            if not prefix:
                cells.append("yes" if rows[-1]["imports_openai"] else "no")
        cells.append(str(rows[-1]["ready_modules"] - base[-1]["ready_modules"]) if base else "–")
        table.append(cells)
    return markdown(table)


def check_cell(workload: str, seen: dict) -> str:
    tokens = seen["spans_with_tokens_per_call"]
    parts = [f"{seen['spans_per_call']:g} span" + ("s" if seen["spans_per_call"] != 1 else "")]
    parts.append("tokens ok" if tokens == 1 else f"tokens in {tokens:g} spans" if tokens else "**no tokens**")
    if "stream" in workload:
        parts.append("first token" if seen["first_token"] else "**no first token**")
    if "retry" in workload:
        parts.append("retries " + ",".join(seen["retry_values"]) if seen["retries"] else "**no retries**")
    return ", ".join(parts)


def check_table(result: dict) -> str:
    table = [["subject", *WORKLOADS]]
    for name, seen in result["check"].items():
        if name != BASE:
            table.append(
                [name, *(check_cell(w, seen[w]) if w in seen else seen.get("error", "–") for w in WORKLOADS)]
            )
    return markdown(table)


def leak_table(result: dict) -> str:
    table = [
        [
            "subject",
            *(f"{w}: {what}" for w in LEAK_WORKLOADS for what in ("MB before", "MB after", "bytes/call")),
        ]
    ]
    for name, seen in result["leak"].items():
        cells = []
        for workload in LEAK_WORKLOADS:
            row = seen.get(workload)
            cells += (
                [
                    num(row["rss_kb"][0] / 1024, 1),
                    num(row["rss_kb"][-1] / 1024, 1),
                    num(row["bytes_per_call"]),
                ]
                if row
                else ["–"] * 3
            )
        table.append([name, *cells])
    return markdown(table)


def table(args: argparse.Namespace) -> None:
    result, *others = [json.loads(path.read_text()) for path in args.results]
    for other in others:
        result |= {mode: other[mode] for mode in MODES if other[mode]}
    even_out(result)
    times, meta = summary(result), result["meta"]
    out = [
        f"Python {meta['python']}, {meta['machine']}, {meta['cpus']} CPUs, {meta['rounds']} rounds of "
        f"{meta['seconds']:g} s per subject and workload, {meta['date']}.\n"
    ]
    if times:
        out.append(HOW_TO_READ)
        for key, what in (("cpu_even_us", "Even CPU"), ("cpu_us", "CPU"), ("wall_us", "Wall")):
            out += [f"## {what} time added to the plain SDK, µs per call\n", overview(times, key)]
    if result["check"]:
        out += ["## What is recorded\n", check_table(result)]
    if result["import"]:
        out += ["## Import and enable\n", import_table(result)]
    if result["leak"]:
        out += ["## Resident memory\n", leak_table(result)]
    for workload, rows in times.items():
        out += [f"## {workload}: {WORKLOADS[workload]}\n", detail(rows)]
    out.append("## Subjects\n")
    out += [f"- **{name}**: {note}" for name, note in result["notes"].items()]
    out += [f"- **{name}**: skipped, {why}." for name, why in result["skipped"].items()]
    print("\n".join(out))
    if args.json:
        args.json.write_text(json.dumps({**result, "summary": times}, indent=1) + "\n")


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
