"""The subjects, and a virtual environment for each."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASE, FLOOR = "none", "bare-span"


def say(text: str) -> None:
    """Tell the user how far it is; results go elsewhere."""
    print(text, file=sys.stderr, flush=True)


def subjects(only: str | None) -> dict[str, dict]:
    """Those of `subjects.toml` that are named, separated by commas, or all; in its order."""
    every = tomllib.loads((HERE / "subjects.toml").read_text())
    chosen = only.split(",") if only else list(every)
    if unknown := set(chosen) - set(every):
        sys.exit(f"unknown subject: {', '.join(sorted(unknown))}")
    return {name: every[name] for name in every if name in chosen}


def python_of(work: Path, name: str) -> Path:
    """The interpreter of a subject's environment."""
    table = tomllib.loads((HERE / "subjects.toml").read_text()).get(name, {})
    return work / "venvs" / table.get("venv", name) / "bin" / "python"


def setup(args: argparse.Namespace) -> None:
    """Make the environments, or bring them up to date."""
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
    """What is installed for a subject, by name."""
    out = subprocess.run(
        [python_of(work, name), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {p["name"]: p["version"] for p in json.loads(out) if p["name"] not in ("pip", "setuptools")}
