"""The command: runs the checks, prints them, and tells by its exit code whether something is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

import msgspec

from agentprof._doctor.checks import Check, all_checks
from agentprof._run.sdks import SDKS

_SIGNS = {"ok": "ok  ", "note": "note", "bad": "BAD "}

_DESCRIPTION = """\
Look at this environment: which SDKs are installed and recorded, whether a collector answers, whether another
distribution owns the module or the command; and make one call of each SDK to an endpoint on this machine,
plain and instrumented. Nothing leaves the machine but an empty request to the collector."""

_EXAMPLES = """\
Examples:
    agentprof doctor
    agentprof doctor openai httpx2
    agentprof doctor --json | jq '.checks[] | select(.state == "bad")'"""


def main(arguments: Sequence[str]) -> int:
    """Print all checks.

    Returns:
        0; 1 if something is wrong; 2 for wrong usage.
    """
    parser = argparse.ArgumentParser(
        prog="agentprof doctor",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "package", nargs="*", help="try only these of the SDKs and HTTP clients that are installed"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document")
    try:
        asked = parser.parse_args(list(arguments))
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 2
    unknown = sorted(set(asked.package) - SDKS.keys())
    if unknown:
        print(
            f"agentprof doctor: unknown: {', '.join(unknown)}. Known are {', '.join(SDKS)}.", file=sys.stderr
        )
        return 2
    checks = all_checks(asked.package)
    return _as_json(list(checks)) if asked.as_json else _as_text(checks)


def _as_json(checks: Sequence[Check]) -> int:
    print(msgspec.json.encode({"schema": 1, "checks": checks}).decode())
    return _code(checks)


def _as_text(checks: Iterable[Check]) -> int:
    seen = []
    for check in checks:
        seen.append(check)
        print(f"{_SIGNS[check.state]}  {check.name}: {check.found}", flush=True)
        if check.advice is not None:
            print(f"      {check.advice}", flush=True)
    return _code(seen)


def _code(checks: Sequence[Check]) -> int:
    return 1 if any(check.state == "bad" for check in checks) else 0
