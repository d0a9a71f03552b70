"""The console script: `run`, `doctor`, and the commands of the collector, or how to install it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_NEEDS = (
    "agentprof: needs: pip install 'agentprof-otel[collector]', or in a clone: pip install '.[collector]'"
)


def main() -> int:
    """Run a command; the exit code, 2 where the collector's packages are not installed."""
    if sys.argv[1:2] == ["run"]:
        return run(sys.argv[2:])
    if sys.argv[1:2] == ["doctor"]:
        from agentprof._doctor.command import main as doctor

        return doctor(sys.argv[2:])
    try:
        from agentprof_collector.cli import main as commands
    except ModuleNotFoundError as missing:
        print(f"{_NEEDS} ({missing.name} is not installed)", file=sys.stderr)
        return 2
    return commands()


def run(arguments: Sequence[str]) -> int:
    """`agentprof run`: works without the collector's packages too, and loads no more of them than it must."""
    from agentprof._run.command import main as run_program
    from agentprof.config import ConfigError

    try:
        from agentprof_collector.embedded import EmbeddedCollector
        from agentprof_collector.errors import AgentprofError
    except ModuleNotFoundError:
        return run_program(arguments, None)
    try:
        return run_program(arguments, EmbeddedCollector)
    except (AgentprofError, ConfigError) as error:
        print(f"agentprof: {error}", file=sys.stderr)
        return 1
