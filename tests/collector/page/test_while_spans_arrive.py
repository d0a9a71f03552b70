"""Pages and API are answered, and right, while spans arrive."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from typing import Any

from support.raw import SECOND, T0
from support.serving import PATIENCE_S, Server

from agentprof.config import load_config
from agentprof.pricing import Pricer
from agentprof_collector.collect.collector import Collector, Options
from agentprof_collector.stores import open_store

TASKS = 120
PATHS = (
    "/",
    "/?group_by=label.n",
    "/tasks/t0",
    "/api/v1/tasks?limit=5",
    "/api/v1/calls?limit=5",
    "/api/v1/parts?by=model",
)


def request(number: int) -> bytes:
    """A task with a call."""

    def span(span_id: int, seconds: int, **attributes: str) -> dict[str, Any]:
        return {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{span_id:016x}",
            **({"parentSpanId": f"{1:016x}"} if span_id > 1 else {}),
            "name": f"span {span_id}",
            "startTimeUnixNano": str(T0 + number * SECOND),
            "endTimeUnixNano": str(T0 + (number + seconds) * SECOND),
            "attributes": [
                {"key": key.replace("__", "."), "value": {"stringValue": value}}
                for key, value in attributes.items()
            ],
        }

    task = {
        "agentprof__task__id": f"t{number}",
        "agentprof__task__name": "answer",
        "agentprof__label__n": str(number % 3),
    }
    call = {
        "agentprof__task__id": f"t{number}",
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "m",
    }
    spans = [span(1, 2, **task), span(2, 1, **call)]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def test_readers_and_senders_at_once() -> None:
    """Every request is answered with 200; a list asked for after a send has what was sent."""
    with Collector(open_store(None), None, Pricer(load_config(None)), Options()) as collector:
        server = Server(int(collector.url.rpartition(":")[2]))
        stop = threading.Event()
        seen: Counter[tuple[str, int]] = Counter()
        counts: list[list[int]] = [[] for _ in range(4)]

        def send(number: int) -> None:
            connection = http.client.HTTPConnection(
                collector.otlp_http_url.removeprefix("http://"), timeout=PATIENCE_S
            )
            connection.request("POST", "/v1/traces", request(number), {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
            connection.close()

        def read(mine: list[int]) -> None:
            while not stop.is_set():
                for path in PATHS:
                    answered = server.ask(path)
                    seen[path, answered.status] += 1
                    if path.startswith("/api/v1/tasks"):
                        mine.append(sum(group["tasks"] for group in answered.document["groups"]))

        send(0)
        readers = [threading.Thread(target=read, args=(mine,)) for mine in counts]
        for reader in readers:
            reader.start()
        for number in range(1, TASKS):
            send(number)
            if number % 20 == 0:
                assert server.ask("/api/v1/tasks?limit=1").document["groups"][0]["tasks"] == number + 1
        stop.set()
        for reader in readers:
            reader.join(PATIENCE_S)
            assert not reader.is_alive()
        document = server.ask("/api/v1/tasks?limit=500").document
    assert {status for _, status in seen} == {200}
    assert all(mine == sorted(mine) for mine in counts)
    assert min(map(len, counts)) > 1
    assert [task["task_id"] for task in document["tasks"]] == [
        f"t{number}" for number in reversed(range(TASKS))
    ]
    assert all(task["calls"] == 1 and task["complete"] for task in document["tasks"])
