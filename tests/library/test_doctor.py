"""`agentprof doctor` in processes of their own: what it finds, and that it finds what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from support.collector_server import CollectorServer


def doctor(*options: str, **environment: str) -> tuple[int, str]:
    """Exit code and output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "AGENTPROF_"))}
    done = subprocess.run(
        [sys.executable, "-m", "agentprof", "doctor", *options],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def checks(*packages: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and checks by name."""
    code, text = doctor("--json", *packages, **environment)
    document = json.loads(text)
    assert document["schema"] == 1
    return code, {check["name"]: check for check in document["checks"]}


def test_a_sound_environment() -> None:
    """Every SDK that is installed makes one call, the same with and without; a collector answers."""
    with CollectorServer() as collector:
        code, found = checks(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url.removesuffix("/v1/traces"))
    assert code == 0, found
    assert found["module agentprof"]["state"] == "ok"
    assert found["collector"]["state"] == "ok"
    for sdk in ("openai", "anthropic", "httpx2"):
        check = found[f"{sdk} {metadata.version(sdk)}"]
        assert check["state"] == "ok"
        assert "one call, the same for the program, recorded" in check["found"]
        assert check["advice"] is None
    assert "openai._base_client" in found[f"openai {metadata.version('openai')}"]["found"]


def test_a_disabled_sdk_is_found() -> None:
    """By the variable, and by calls that are not recorded; the exit code says that something is wrong."""
    code, found = checks("openai", OTEL_SDK_DISABLED="true")
    assert code == 1
    assert found["variable OTEL_SDK_DISABLED"]["state"] == "bad"
    openai = found[f"openai {metadata.version('openai')}"]
    assert (openai["state"], openai["found"]) == ("bad", "not recorded")
    assert found["collector"]["state"] == "note"


def test_an_sdk_that_does_not_work_is_found(tmp_path: Path) -> None:
    """With the name of its error."""
    (tmp_path / "openai.py").write_text("raise OSError('broken')")
    code, found = checks("openai", PYTHONPATH=str(tmp_path))
    openai = found[f"openai {metadata.version('openai')}"]
    assert (code, openai["found"]) == (1, "failed: OSError")


@pytest.mark.parametrize(
    ("version", "how"),
    [
        ("1.40.0", "older than 1.50, the oldest version that is supported"),
        ("9.1", "newer than 3.x, the newest version that was tried"),
    ],
)
def test_a_version_outside_those_that_are_supported(version: str, how: str, tmp_path: Path) -> None:
    """Named, with what its one call gave, and what to do."""
    info = tmp_path / f"openai-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: openai\nVersion: {version}\n")
    code, found = checks("openai", PYTHONPATH=str(tmp_path))
    check = found[f"openai {version}"]
    assert (code, check["state"]) == (0, "note")
    assert check["found"].startswith(f"{how}; one call, the same for the program, recorded")
    assert check["advice"].endswith("Supported are 1.50.2 to 3.x: pip install 'openai>=1.50.2'")


@pytest.mark.parametrize("owns", ["module", "command"])
def test_another_owner_of_the_name_is_found(owns: str, tmp_path: Path) -> None:
    """A distribution that installs a module or a command of our name."""
    info = tmp_path / "another-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    if owns == "module":
        (info / "RECORD").write_text("agentprof/__init__.py,,\n")
    else:
        (info / "entry_points.txt").write_text("[console_scripts]\nagentprof = another:main\n")
    code, found = checks("openai", PYTHONPATH=str(tmp_path))
    check = found[f"{owns} agentprof"]
    assert (code, check["state"], check["found"]) == (1, "bad", "also installed by another")


def test_the_text_says_the_same_and_no_secret() -> None:
    """Values of variables are shown, but not those that may hold a key."""
    code, text = doctor(
        "openai",
        OTEL_EXPORTER_OTLP_HEADERS="authorization=canary",
        OTEL_SERVICE_NAME="mine",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://user:canary@127.0.0.1:9",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="http://127.0.0.1:9/v1/metrics?canary=1",
    )
    assert code == 0
    assert "canary" not in text
    assert "note  variable OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: http://127.0.0.1:9/v1/metrics?…\n" in text
    assert "note  variable OTEL_EXPORTER_OTLP_HEADERS: set\n" in text
    assert "note  variable OTEL_SERVICE_NAME: mine\n" in text
    assert (
        "note  collector: http://…@127.0.0.1:9/v1/traces does not take spans (ConnectionRefusedError)\n"
        in text
    )
    assert "ok    openai " in text


@pytest.mark.parametrize(
    ("version", "state", "text"),
    [
        ("1.9.0", "ok", "recorded; not called here"),
        ("1.3.0", "note", "older than 1.4, the oldest version that is supported; recorded; not called here"),
    ],
)
def test_what_is_recorded_and_cannot_be_tried_alone(
    version: str, state: str, text: str, tmp_path: Path
) -> None:
    """A client of tools needs a server of its own: its version is looked at all the same."""
    info = tmp_path / f"mcp-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mcp\nVersion: {version}\n")
    code, found = checks("mcp", PYTHONPATH=str(tmp_path))
    check = found[f"mcp {version}"]
    assert (code, check["state"], check["found"]) == (0, state, text)


def test_only_some_are_tried() -> None:
    """Those that are named, of which a wrong name is said with the right ones."""
    code, found = checks("httpx", "openai")
    tried = [name.partition(" ")[0] for name, check in found.items() if "one call" in check["found"]]
    assert (code, tried) == (0, ["openai", "httpx"])
    done = subprocess.run(
        [sys.executable, "-m", "agentprof", "doctor", "opneai"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("agentprof doctor: unknown: opneai. Known are openai, anthropic, ")
