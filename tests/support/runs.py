"""Programs run by `agentprof run`, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RUN = [sys.executable, "-m", "agentprof", "run"]

OF_OPENAI = """
    import sys
    from openai import OpenAI
    client = OpenAI(base_url=sys.argv[1], api_key="key", max_retries=0)
    ask = lambda **more: client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": "Hi"}], **more)
    print(ask())
    print([chunk.choices and chunk.choices[0].delta.content for chunk in ask(stream=True)])
    try:
        ask()
    except Exception as error:
        print(repr(error), error.body)
    print(type(client), "agentprof" in str(client.chat.completions.create))
    """


def done(command: Sequence[str | Path], environment: dict[str, str], **more: Any) -> Any:
    """A program run to its end."""
    return subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, timeout=120, check=False, **more
    )


def ran(
    options: Sequence[str], command: Sequence[str | Path], environment: dict[str, str], **more: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """A program run by agentprof, and the summaries of its tasks."""
    place = Path(environment["AGENTPROF_DB"]).with_name("summary.json")
    result = done([*RUN, "--summary", place, *options, "--", *command], environment, **more)
    return result, json.loads(place.read_bytes())["tasks"]


def as_a_shell_says(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


@contextmanager
def started(
    command: Sequence[str | Path], environment: dict[str, str], **more: Any
) -> Iterator[subprocess.Popen[str]]:
    """A program that runs beside the test, in a group of processes of its own that does not survive a failure."""
    with subprocess.Popen(
        list(map(str, command)), env=environment, text=True, start_new_session=True, **more
    ) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
