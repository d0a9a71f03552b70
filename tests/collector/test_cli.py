import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import agentprof
from agentprof_collector import cli
from agentprof_collector.commands import ingest as ingest_module

ENTRY = "import sys; from agentprof._cli import main; sys.exit(main())"


@pytest.mark.parametrize("name", sorted(cli.commands.commands))
def test_every_command_explains_itself(agentprof_command: Any, name: str) -> None:
    """`--help` has an example that begins with the command's own name."""
    done = agentprof_command(name, "--help", COLUMNS="100")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"\n    agentprof {name}" in done.stdout or f"... agentprof {name}" in done.stdout
    assert "--json" in done.stdout or "JSON if" in done.stdout


def test_the_name_of_another_distribution_is_never_recommended() -> None:
    """What users are told to install is the distribution of this project."""
    package = Path(cli.__file__).parent
    sources = [*package.rglob("*.py"), *Path(agentprof.__file__).parent.rglob("*.py")]
    assert len(sources) > 20
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert "install agentprof\n" not in text
        assert "install 'agentprof[" not in text
        assert 'install "agentprof[' not in text


def test_version_and_unknown_command(agentprof_command: Any) -> None:
    """`--version` prints it; an unknown command is wrong usage."""
    assert agentprof.__version__ in agentprof_command("--version").stdout
    done = agentprof_command("explode")
    assert done.returncode == 2
    assert "No such command 'explode'" in done.stderr


def test_without_the_extra_the_install_command_is_told(tmp_path: Path) -> None:
    """The library alone answers with what to install, and code 2."""
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('no click', name='click')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, "report"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        "needs: pip install 'agentprof-otel[collector]', or in a clone: pip install '.[collector]'"
        in done.stderr
    )
    assert "click is not installed" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unexpected_error_is_one_sentence(
    agentprof_command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A mistake of the program itself has no traceback unless asked for, and code 1."""

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("by zero")

    (tmp_path / "x.jsonl").touch()
    monkeypatch.setattr(ingest_module, "load_config", broken)
    done = agentprof_command("ingest", "x.jsonl")
    assert done.returncode == 1
    assert "ZeroDivisionError: by zero" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in agentprof_command("ingest", "x.jsonl", AGENTPROF_DEBUG="1").stderr


def test_an_interrupt_is_quiet(
    agentprof_command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Control-C ends with 130 and nothing else."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "x.jsonl").touch()
    monkeypatch.setattr(ingest_module, "load_config", interrupted)
    done = agentprof_command("ingest", "x.jsonl")
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    """`agentprof ... | head -1` ends without a traceback."""
    spans = [
        {"traceId": f"{n:032x}", "spanId": "01", "startTimeUnixNano": "5", "endTimeUnixNano": "9",
         "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]}
        for n in range(1, 2_000)
    ]  # fmt: skip
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    database = tmp_path / "x.duckdb"
    assert cli.main(["ingest", "--db", str(database), str(file)]) == 0
    command = [sys.executable, "-c", ENTRY, "report", "--csv", "--db", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("task_id,")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--json"], ["--csv"], []])
def test_output_that_cannot_be_written(arguments: list[str], demo_run: Any) -> None:
    """The reason, and code 1; nothing more is said at the end of the process."""
    command = [sys.executable, "-c", ENTRY, "report", "--db", str(demo_run[1]), *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "agentprof: the output cannot be written: No space left on device\n"


def test_output_that_cannot_show_a_character(tmp_path: Path, demo_run: Any) -> None:
    """An ASCII stream gets question marks, not an error."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "COLUMNS": "80"}
    command = [sys.executable, "-c", ENTRY, "report", "--db", str(demo_run[1])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "? $0.000105" in done.stdout


@pytest.mark.parametrize(
    ("closed", "arguments", "expected"),
    [
        (">&-", ["--json"], (0, "", "")),
        (">&-", ["--csv"], (0, "", "")),
        (">&-", [], (0, "", "")),
        (">&-", ["none"], (1, "", "agentprof: there is no task 'none'")),
        ("2>&-", ["none"], (1, "", "")),
        ("<&- >&- 2>&-", [], (0, "", "")),
    ],
)
def test_streams_that_are_closed(
    closed: str, arguments: list[str], expected: tuple[int, str, str], demo_run: Any
) -> None:
    """What would be written there is not, and nothing else changes."""
    command = [sys.executable, "-W", "error", "-c", ENTRY, "report", "--db", str(demo_run[1]), *arguments]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.partition(". ")[0]) == expected


def test_commands_are_a_group() -> None:
    """The four commands of this release are there."""
    assert isinstance(cli.commands, click.Group)
    assert {"demo", "ingest", "report", "outcome"} <= cli.commands.commands.keys()
