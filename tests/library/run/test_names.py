"""What a run is called, told from its command."""

import pytest

from agentprof._run.names import name_of, script_of


@pytest.mark.parametrize(
    ("command", "name", "script"),
    [
        ("python agent.py", "agent.py", "agent.py"),
        ("/usr/bin/python3.12 -u -X dev -W error src/agent.py -m x", "agent.py", "src/agent.py"),
        ("python3.13t -OO agent.py", "agent.py", "agent.py"),
        ("python.exe agent.py", "agent.py", "agent.py"),
        ("python -m package.agent --flag", "-m package.agent", None),
        ("python -um package.agent", "-m package.agent", None),
        ("python -mpackage.agent", "-m package.agent", None),
        ("python -Xdev agent.py", "agent.py", "agent.py"),
        ("python -Wm agent.py", "agent.py", "agent.py"),
        ("python -c pass agent.py", "-c", None),
        ("python --check-hash-based-pycs never agent.py", "agent.py", "agent.py"),
        ("python folder/", "folder", "folder/"),
        ("python -", "-", None),
        ("python", "python", None),
        ("/opt/bin/my-agent run.py", "my-agent", None),
        ("pythonista agent.py", "pythonista", None),
    ],
)
def test_names(command: str, name: str, script: str | None) -> None:
    """The script, the module, or the program."""
    assert name_of(command.split()) == name
    assert script_of(command.split()) == script
