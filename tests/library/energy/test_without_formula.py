"""What becomes of the formula where its package is not there, or is another than the one that is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys
logging.basicConfig(format="%(message)s")
sys.path.insert(0, sys.argv[1])
from agentprof.model import Call, Span, Usage
from agentprof.pricing import Pricer
pricer = Pricer()
said = Call(model="gpt-4o", provider="openai", usage=Usage(input=1, output=2))
for _ in range(3):
    print(pricer.price(Span(trace_id="a", span_id="b", start_ns=0, end_ns=9, kind="model", call=said)).call.energy)
"""


def priced(folder: Path) -> tuple[list[str], list[str]]:
    """Lines of output and of the log of a process that has the folder before what is installed."""
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split(), done.stderr.splitlines()


def test_another_version_costs_the_energy_and_is_said_once(tmp_path: Path) -> None:
    """A package of that name without the functions; calls go on, cost and all."""
    (tmp_path / "ecologits").mkdir()
    (tmp_path / "ecologits" / "__init__.py").write_text("__version__ = '99'\n")
    out, log = priced(tmp_path)
    assert out == ["None"] * 3
    (line,) = log
    assert line.startswith(
        "energy is not estimated: the installed ecologits cannot be used (ModuleNotFoundError"
    )
    assert line.endswith("known to work is 0.11.3")


def test_a_package_that_changed_costs_the_energy_too(tmp_path: Path) -> None:
    """Whatever it raises."""
    (tmp_path / "ecologits").mkdir()
    (tmp_path / "ecologits" / "__init__.py").touch()
    (tmp_path / "ecologits" / "model_repository.py").write_text("class models:\n    pass\n")
    out, log = priced(tmp_path)
    assert out == ["None"] * 3
    assert len(log) == 1
    assert "AttributeError" in log[0]
