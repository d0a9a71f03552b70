"""Measures: fresh processes of the subjects, which take turns in every round."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from typing import Any

from environments import HERE, missing, python_of, say, subjects, versions

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
    """Measure in the modes asked for, and write the result after each step."""
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
