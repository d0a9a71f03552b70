"""The scripts that bring programs of others into a cache: what they say without building anything."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(
    script: str, cache: Path, *arguments: str, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script with a cache of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def build_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("build_go", str(SCRIPTS / "build_go"))
    spec = importlib.util.spec_from_loader("build_go", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "build_go", module)
    loader.exec_module(module)
    return module


def test_what_is_not_built_is_named_with_the_command(tmp_path: Path) -> None:
    """Paths on the output, the rest beside it."""
    done = run("build_go", tmp_path, "--print-path", "otelcol")
    assert done.returncode == 1
    assert done.stdout == f"{tmp_path}/agentprof/go/otelcol-0.161.0/otelcol\n"
    assert done.stderr == "not built: otelcol; run scripts/build_go otelcol\n"


def test_an_unknown_program_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    """Nothing is built."""
    done = run("build_go", tmp_path, "jaegr")
    assert done.returncode == 2
    assert "unknown program jaegr; there are jaeger, otelcol" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_go_nothing_is_built(tmp_path: Path) -> None:
    """The message says what is missing."""
    done = run("build_go", tmp_path, "jaeger", path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("no `go` on PATH")


def test_what_is_built_is_left_alone_until_its_recipe_changes(build_go: ModuleType, tmp_path: Path) -> None:
    """A program in the cache counts by the recipe noted beside it, and is moved into place whole."""
    built: list[Path] = []

    def make(work: Path) -> Path:
        built.append(work)
        made = work / "made"
        made.write_text("#!/bin/sh\n")
        made.chmod(0o755)
        return made

    first = build_go.Program("toy", "1.2.3", make, "as before")
    assert not first.is_built()
    build_go.build(first)
    assert first.path == tmp_path / "agentprof/go/toy-1.2.3/toy"
    assert os.access(first.path, os.X_OK)
    assert sorted(file.name for file in first.path.parent.iterdir()) == ["build.json", "toy"]
    record = json.loads(first.record.read_text())
    assert record["recipe"] == hashlib.sha256(b"as before").hexdigest()
    assert record["version"] == "1.2.3"
    assert first.is_built()
    assert not build_go.Program("toy", "1.2.3", make, "otherwise").is_built()
    assert not built[0].exists()


def test_javascript_that_is_not_installed_is_not_found(tmp_path: Path) -> None:
    """Where it would be is said all the same."""
    done = run("install_js", tmp_path, "--print-path")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{tmp_path}/agentprof/js/")
    without_npm = run("install_js", tmp_path, path=str(tmp_path))
    assert without_npm.returncode == 1
    assert "no `npm` on PATH" in without_npm.stderr
