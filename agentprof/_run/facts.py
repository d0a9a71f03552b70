"""What is known of a run before it begins: commit, host, labels, identity."""

from __future__ import annotations

import os
import platform
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentprof import __version__, attributes
from agentprof._run.names import script_of

_GIT_S = 1.0
"""A checkout that takes longer to say whether it changed is not asked again."""


def resource(command: Sequence[str]) -> dict[str, str]:
    """What every span of the run says of it."""
    script = script_of(command)
    folder = Path(script).resolve().parent if script is not None else Path.cwd()
    return {
        "host.name": platform.node(),
        "telemetry.distro.name": "agentprof",
        "telemetry.distro.version": __version__,
        **_commit(folder),
    }


def _commit(folder: Path) -> dict[str, str]:
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return {}
    known = {"vcs.ref.head.revision": head}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if changed is not None:
        known[attributes.RUN_DIRTY] = "true" if changed else "false"
    return known


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip()


def new_traceparent() -> str:
    """Identity of the span of a run, in its W3C form."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def environment(base: Mapping[str, str], variable: str, settings: str) -> dict[str, str]:
    """The environment of the program: ours is the first entry of its path."""
    autostart = str(Path(__file__).parents[1] / "_autostart")
    present = base.get("PYTHONPATH")
    path = f"{autostart}{os.pathsep}{present}" if present else autostart
    return {**base, "PYTHONPATH": path, variable: settings}
