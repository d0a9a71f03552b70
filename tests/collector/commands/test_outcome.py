import json
import shutil
from pathlib import Path
from typing import Any

Demo = tuple[list[dict[str, Any]], Path]


def test_an_outcome_recorded_later(agentprof_command: Any, demo_run: Demo, tmp_path: Path) -> None:
    """It holds against what the program said; the last one holds; all figures but the outcome stay."""
    database = tmp_path / "copy.duckdb"
    shutil.copy(demo_run[1], database)
    task = demo_run[0][0]
    done = agentprof_command("outcome", "--db", database, task["task_id"][:10], "failure", "--score", "0.2")
    assert (done.returncode, done.stdout) == (0, f"{task['task_id']}: failure, score 0.2\n")
    seen = json.loads(agentprof_command("report", "--db", database, task["task_id"], "--json").stdout)
    changed = {key for key in task if seen[key] != task[key]}
    assert {"outcome", "score"} <= changed <= {"outcome", "score", "errors"}
    assert (seen["outcome"], seen["score"]) == ("failure", 0.2)

    done = agentprof_command("outcome", "--db", database, task["task_id"], "success", "--json")
    document = json.loads(done.stdout)
    assert (document["task_id"], document["outcome"]) == (task["task_id"], "success")
    seen = json.loads(agentprof_command("report", "--db", database, task["task_id"], "--json").stdout)
    assert (seen["outcome"], seen["score"]) == ("success", None)


def test_mistakes(agentprof_command: Any, demo_run: Demo, tmp_path: Path) -> None:
    """An unknown task and a missing database are failures, another word wrong usage; nothing is created."""
    database = tmp_path / "copy.duckdb"
    shutil.copy(demo_run[1], database)
    done = agentprof_command("outcome", "--db", database, "none", "success")
    assert done.returncode == 1
    assert "there is no task 'none'" in done.stderr
    done = agentprof_command("outcome", "--db", database, "none", "meh")
    assert done.returncode == 2
    done = agentprof_command("outcome", "--db", tmp_path / "no.duckdb", "none", "success")
    assert done.returncode == 1
    assert "no database at" in done.stderr
    assert not (tmp_path / "no.duckdb").exists()
