"""What `agentprof run` takes on its command line."""

from __future__ import annotations

import pytest

from agentprof._run.arguments import parse


def test_the_help_names_the_variables(capsys: pytest.CaptureFixture[str]) -> None:
    """By which a program that is not changed gets the usage that nobody reports."""
    with pytest.raises(SystemExit) as done:
        parse(["--help"])
    assert done.value.code == 0
    said = capsys.readouterr().out
    assert "AGENTPROF_STREAM_USAGE=1" in said
    assert "AGENTPROF_ESTIMATE_USAGE=1" in said
