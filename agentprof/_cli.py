"""The console script: the commands of the collector, or how to install it."""

from __future__ import annotations

import sys

_NEEDS = "agentprof: needs: pip install 'agentprof-otel[collector]'"


def main() -> int:
    """Run a command; the exit code, 2 where the collector's packages are not installed."""
    try:
        from agentprof_collector.cli import main as run
    except ModuleNotFoundError as missing:
        print(f"{_NEEDS} ({missing.name} is not installed)", file=sys.stderr)
        return 2
    return run()
