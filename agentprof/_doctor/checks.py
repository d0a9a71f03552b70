"""What is looked at, each as one line for a person and one object for a machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

import msgspec

from agentprof import __version__
from agentprof._doctor.callers import CALLERS
from agentprof._doctor.self_test import Finding
from agentprof._run.sdks import SDKS, TRIED, WITHOUT_MODELS, outside, version_of
from agentprof._run.settings import VARIABLE

DISTRIBUTION: Final = "agentprof-otel"
_SELF_TEST_S: Final = 60
_SPEAKING: Final = ("OTEL_", "AGENTPROF_")
_SECRET: Final = ("HEADERS", "KEY", "TOKEN", "PASSWORD")

State = Literal["ok", "note", "bad"]


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    advice: str | None = None
    """What to do; None: nothing."""


def all_checks(packages: Collection[str] = ()) -> Iterator[Check]:
    """Everything, in the order it is shown.

    Args:
        packages: Of what calls models only these; empty: all that are installed.
    """
    yield Check("agentprof", "ok", f"{__version__}, Python {sys.version.split()[0]} at {sys.executable}")
    yield from owners()
    yield from extras()
    yield from variables()
    yield collector()
    yield from sdks(packages)


def owners() -> Iterator[Check]:
    """Whether the module and the command are those of this distribution."""
    others = sorted(set(metadata.packages_distributions().get("agentprof", ())) - {DISTRIBUTION})
    if others:
        yield Check(
            "module agentprof",
            "bad",
            f"also installed by {', '.join(others)}",
            f"Uninstall it and install this one again: pip uninstall {' '.join(others)}; "
            f"pip install --force-reinstall {DISTRIBUTION}",
        )
    else:
        yield Check("module agentprof", "ok", str(Path(__file__).parents[1]))
    scripts = metadata.entry_points(group="console_scripts", name="agentprof")
    strangers = sorted({script.dist.name for script in scripts if script.dist is not None} - {DISTRIBUTION})
    if strangers:
        yield Check(
            "command agentprof",
            "bad",
            f"also installed by {', '.join(strangers)}",
            "Use python -m agentprof, which is this one for certain.",
        )
    else:
        yield _command_on_path()


def _command_on_path() -> Check:
    here = shutil.which("agentprof")
    if here is None:
        return Check("command agentprof", "note", "not on PATH", "Use python -m agentprof.")
    if Path(here).resolve().parent != Path(sys.executable).resolve().parent and (
        Path(here).parent != Path(sys.executable).parent
    ):
        return Check(
            "command agentprof",
            "note",
            f"{here}, of another environment than this Python",
            "Use python -m agentprof for this one.",
        )
    return Check("command agentprof", "ok", here)


def extras() -> Iterator[Check]:
    """Optional parts of the distribution."""
    for extra, module, what in (
        ("collector", "duckdb", "summaries of run, report, ingest, demo"),
        ("prices", "genai_prices", "prices of models"),
    ):
        there = importlib.util.find_spec(module) is not None
        advice = None if there else f"For {what}: pip install '{DISTRIBUTION}[{extra}]'"
        yield Check(
            f"extra {extra}", "ok" if there else "note", "installed" if there else "not installed", advice
        )


def variables() -> Iterator[Check]:
    """Variables of the environment that change what is recorded or where it goes; secrets stay unsaid."""
    for name in sorted(name for name in os.environ if name.startswith(_SPEAKING) and name != VARIABLE):
        value = "set" if any(part in name for part in _SECRET) else _without_secrets(os.environ[name])
        if name == "OTEL_SDK_DISABLED" and value.strip().lower() == "true":
            yield Check(f"variable {name}", "bad", value, "No span is recorded: unset it.")
        else:
            yield Check(f"variable {name}", "note", value)


def _without_secrets(value: str) -> str:
    """An address without user, password and query: what doctor says is shown to others."""
    return re.sub(r"\?.*", "?…", re.sub(r"://[^/?#]*@", "://…@", value)) if "://" in value else value


def collector() -> Check:
    """Whether what spans are sent to takes them: asked with an empty request."""
    from agentprof import _otlp, _settings
    from agentprof._otlp_http import Sender

    if _otlp.wants_grpc():
        return Check("collector", "note", "spans go out by gRPC, which is not tried here")
    endpoint = _otlp.endpoint(None, _settings.DEFAULT_ENDPOINT)
    sender = Sender(endpoint)
    answer = sender.send(b"")
    sender.close()
    if answer.kind == "taken":
        return Check("collector", "ok", f"{_without_secrets(endpoint.url)} answers")
    return Check(
        "collector",
        "note",
        f"{_without_secrets(endpoint.url)} does not take spans ({answer.reason})",
        "agentprof run needs none; for other programs start a collector there, or name one with "
        "OTEL_EXPORTER_OTLP_ENDPOINT. Until then spans wait on disk.",
    )


def sdks(only: Collection[str] = ()) -> Iterator[Check]:
    """What is installed, whether agentprof records it, and whether that works."""
    for name in sorted(only or SDKS, key=lambda name: (name in WITHOUT_MODELS, name)):
        version = version_of(name)
        if version is None:
            continue
        if name in CALLERS:
            yield in_range(name, version, described(name, version, tested(name)))
        elif name in TRIED:
            yield in_range(name, version, Check(f"{name} {version}", "ok", "recorded; not called here"))
        elif name not in WITHOUT_MODELS:
            yield Check(
                f"{name} {version}",
                "note",
                "not recorded by agentprof itself",
                "Spans of an OpenTelemetry instrumentation for it are understood.",
            )


def tested(sdk: str) -> Finding:
    """The self-test of an SDK, in a process of its own."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_SPEAKING) or name == "OTEL_SDK_DISABLED"
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "agentprof._doctor.self_test", sdk],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SELF_TEST_S,
            check=True,
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Finding)
    except (OSError, subprocess.SubprocessError, IndexError, msgspec.MsgspecError) as error:
        return Finding(sdk, error=f"the test itself: {type(error).__name__}")


def described(sdk: str, version: str, found: Finding) -> Check:
    """A self-test in words."""
    name = f"{sdk} {version}"
    if found.well:
        own_us = (found.instrumented_s - found.plain_s) * 1e6
        return Check(
            name,
            "ok",
            f"one call, the same for the program, recorded; {found.plain_s * 1e6:.0f} µs plain, "
            f"{own_us:+.0f} µs instrumented; through {', '.join(of_sdk(found.modules))}",
        )
    wrong = [
        text
        for bad, text in (
            (found.error is not None, f"failed: {found.error}"),
            (not found.same_result, "the program gets something else"),
            (not found.same_request, "another request goes out"),
            (not found.recorded, "not recorded"),
            (not found.undone, "patches remain"),
        )
        if bad
    ]
    if found.error is not None:
        wrong = wrong[:1]
    return Check(
        name, "bad", "; ".join(wrong), "Please report it, with the output of agentprof doctor --json."
    )


def in_range(name: str, version: str, check: Check) -> Check:
    """A check that also says if the version is none of those that are supported."""
    how = outside(name, version)
    if how is None:
        return check
    oldest, newest = TRIED[name]
    newest = newest.partition(".")[0]
    advice = f"Supported are {oldest} to {newest}.x: pip install '{SDKS[name]}>={oldest}'"
    if check.state == "ok":
        advice = f"Not all ways to call it were tried. {advice}"
    state: State = "bad" if check.state == "bad" else "note"
    return Check(check.name, state, f"{how}; {check.found}", advice)


def of_sdk(modules: list[str]) -> list[str]:
    """Without what is patched for context in every process."""
    return [name for name in modules if name not in ("threading", "concurrent.futures.thread")]
