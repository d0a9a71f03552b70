import os
import subprocess
import sys
from pathlib import Path

from agentprof_collector.demo.server import DemoServer

EXAMPLE = Path(__file__).parents[3] / "examples" / "openai_agent.py"


def test_the_example_prints_its_summary(tmp_path: Path) -> None:
    """The program of `examples/` runs as it stands, here on recorded answers, and says what its task cost."""
    with DemoServer(pace=0) as server:
        environment = {**os.environ, "OPENAI_BASE_URL": server.model_url, "OPENAI_API_KEY": "x"}
        done = subprocess.run(
            [sys.executable, str(EXAMPLE)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "YES"
    assert lines[1].startswith("dragons   success   ")
    assert "calls        3 model calls, 2 tool runs" in lines
    assert "cost         $0.0000762" in lines
