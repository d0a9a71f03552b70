"""However a program ends: its last spans arrive or are on disk, and the end waits two seconds at most."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.collector_server import CollectorServer, Reply, free_port
from support.model_server import ModelServer
from support.model_server import Reply as ModelReply
from support.timed_calls import LATE

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., Any]

CALLS = """
agentprof.instrument(endpoint=sys.argv[1])
for number in range(int(sys.argv[2])):
    with agentprof.step(str(number)):
        pass
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise SystemExit('text')", 1),
        ("raise ValueError('unhandled')", 1),
        ("raise KeyboardInterrupt", 1),
        ("thread = threading.Thread(target=sys.exit, args=(4,)); thread.start(); thread.join()", 0),
        ("agentprof.flush(); os._exit(5)", 5),
        ("agentprof.uninstrument(); os._exit(6)", 6),
    ],
)
def test_every_way_to_end(start: Start, end: str, code: int) -> None:
    """Nothing is lost, also by a program that is over at once."""
    with CollectorServer() as collector:
        process = start(CALLS + end, collector.url, 3)
        process.communicate(timeout=60)
        assert process.returncode == code
        assert collector.names == ["0", "1", "2"]


def test_the_end_of_a_program_without_collector(start: Start, folder: Path) -> None:
    """It waits for nothing: what could not be sent is on disk, and the next run brings it."""
    with free_port() as port:
        url = f"http://127.0.0.1:{port}/v1/traces"
        _, said = start(CALLS, url, 700).communicate(timeout=60)
        assert said.count("\n") == 1
        assert "collector takes no spans" in said
        assert len(os.listdir(folder)) >= 1
    with CollectorServer(port) as collector:
        start(CALLS, url, 1).communicate(timeout=60)
        assert sorted(collector.names, key=int) == sorted(["0", *map(str, range(700))], key=int)
    assert os.listdir(folder) == []


def test_killed(start: Start, folder: Path) -> None:
    """What was on disk is delivered by the next program; the claim of the dead one does not keep it."""
    hold = threading.Event()
    with CollectorServer(reply=lambda number: Reply(503) if number == 0 else Reply(hold=hold)) as collector:
        process = start(
            CALLS + "agentprof.flush(); print('on disk', flush=True); sys.stdin.read()", collector.url, 5
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "on disk\n"
        collector.wait_for(lambda: len(collector.requests) == 2)  # the file is claimed and being sent
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert any(".claimed-" in name for name in os.listdir(folder))
        hold.set()
        collector.wait_for(lambda: len(collector.names) == 5)  # the request of the dead was whole
        start(CALLS, collector.url, 1).communicate(timeout=60)
        assert sorted(set(collector.names)) == ["0", "1", "2", "3", "4"]
    assert os.listdir(folder) == []


@pytest.mark.parametrize("limit_s", [None, 5.0])
def test_a_slow_collector_and_the_end(run: Run, folder: Path, limit_s: float | None) -> None:
    """The end comes within two seconds, or the time that is set; everything is on disk."""
    hold = threading.Event()
    with CollectorServer(reply=lambda number: Reply(hold=hold)) as collector:
        found = run(
            CALLS
            + """
            import atexit
            from agentprof import _export
            def show():
                began = time.monotonic()
                _export._at_exit()
                print(json.dumps([time.monotonic() - began, agentprof.stats().spooled]))
            atexit.register(show)
            """.replace("\n            ", "\n"),
            collector.url,
            1000,
            **({} if limit_s is None else {"AGENTPROF_EXIT_TIMEOUT_S": str(limit_s)}),
        )
        hold.set()
    waited_s, spooled = found
    # What is not sent by then has to be written, which a busy machine does late.
    limit_s = limit_s or 2.0
    assert limit_s / 2 < waited_s < limit_s + LATE
    assert spooled == 1000
    assert sum(int(name.split("-")[2]) for name in os.listdir(folder)) == 1000


def test_run_time_does_not_depend_on_the_collector(run: Run) -> None:
    """With one that never answers a program takes about as long as with one that is there, or none."""
    program = """
    agentprof.instrument(endpoint=sys.argv[1], exit_timeout_s=0.1)
    began = time.perf_counter()
    for number in range(300):
        with agentprof.step(str(number)):
            time.sleep(0.001)  # stands for the work of the program
    print(json.dumps(time.perf_counter() - began))
    """
    hold = threading.Event()
    with (
        free_port() as port,
        CollectorServer(reply=lambda number: Reply(hold=hold)) as slow,
        CollectorServer() as present,
    ):
        urls = [f"http://127.0.0.1:{port}/v1/traces", slow.url, present.url]
        took = [min(_said(run, program, url) for _ in range(3)) for url in urls]
        hold.set()
    assert max(took) < min(took) + 5, took


def _said(run: Run, program: str, url: str) -> float:
    found = run("import logging; logging.disable()\n" + textwrap.dedent(program), url)
    assert isinstance(found, float)
    return found


def test_two_processes_share_a_spool(start: Start, folder: Path) -> None:
    """Both leave spans there, two others deliver them together: each span once."""
    with free_port() as port:
        url = f"http://127.0.0.1:{port}/v1/traces"
        program = CALLS.replace("str(number)", "sys.argv[3] + str(number)") + (
            "\nfor _ in range(20):\n    with agentprof.step(sys.argv[3] + 'more' + str(_)): pass\n    agentprof.flush()"
        )
        for process in [start(program, url, 2000, name) for name in "ab"]:
            process.communicate(timeout=60)
        assert len(os.listdir(folder)) > 40
    with CollectorServer(port) as collector:
        deliver = CALLS.replace("str(number)", "sys.argv[3]") + "\nassert agentprof.flush(30)"
        for process in [start(deliver, url, 1, name) for name in "cd"]:
            _, said = process.communicate(timeout=60)
            assert (process.returncode, said) == (0, "")
        expected = [name + str(number) for name in "ab" for number in range(2000)]
        expected += [f"{name}more{number}" for name in "ab" for number in range(20)] + ["c", "d"]
        assert sorted(collector.names) == sorted(expected)
    assert os.listdir(folder) == []


def test_canaries_are_not_on_disk(run: Run, folder: Path) -> None:
    """No prompt, answer, argument, header, key, query or error message is in the files of the spool."""
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "CANARY"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    with ModelServer() as server, free_port() as port:
        server.replies = [
            ModelReply.json(answer, x_canary="CANARY"),
            ModelReply.json({"error": {"message": "CANARY"}}, 400),
        ]
        run(
            """
            import logging, openai
            logging.disable()
            agentprof.instrument(endpoint=sys.argv[1])
            client = openai.OpenAI(api_key="CANARY", base_url=sys.argv[2], default_query={"q": "CANARY"})

            @agentprof.tool()
            def look(query):
                raise ValueError("CANARY")

            with agentprof.task("task"):
                for _ in range(2):
                    try:
                        client.chat.completions.create(
                            model="gpt-4o-mini", messages=[{"role": "user", "content": "CANARY"}],
                            extra_headers={"x-canary": "CANARY"},
                        )
                    except openai.BadRequestError:
                        pass
                try:
                    look("CANARY")
                except ValueError:
                    pass
            """,
            f"http://user:CANARY@127.0.0.1:{port}/v1/traces",
            server.url,
            OTEL_EXPORTER_OTLP_HEADERS="authorization=CANARY",
        )
    kept = b"".join(path.read_bytes() + path.name.encode() for path in folder.iterdir())
    assert kept.count(b"gpt-4o-mini") >= 2
    assert b"look" in kept
    assert b"CANARY" not in kept


def test_the_default_folder(tmp_path: Path) -> None:
    """In the state folder of the user; an empty variable switches the spool off."""
    program = (
        "import json, agentprof._settings as s; f = s._spool_folder();"
        "print(json.dumps(None if f is None else str(f)))"
    )
    found = {}
    for name, environment in {
        "home": {"HOME": "/home/me"},
        "state": {"HOME": "/home/me", "XDG_STATE_HOME": str(tmp_path)},
        "named": {"HOME": "/home/me", "AGENTPROF_SPOOL": "~/spool"},
        "off": {"HOME": "/home/me", "AGENTPROF_SPOOL": ""},
    }.items():
        out = subprocess.run(
            [sys.executable, "-c", program],
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            check=True,
        )
        found[name] = json.loads(out.stdout)
    assert found == {
        "home": "/home/me/.local/state/agentprof/spool",
        "state": f"{tmp_path}/agentprof/spool",
        "named": "/home/me/spool",
        "off": None,
    }
