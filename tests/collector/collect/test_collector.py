"""The collector as a whole: what is sent to it over its ports is stored, added up and told."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from support.collecting import PRICER, agent_request, collecting
from support.raw import SECOND, T0, call_span, task_span

from agentprof.model import OutcomeFact
from agentprof_collector.collect.collector import Hooks
from agentprof_collector.collect.lockfile import read_lock
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.stores import open_store

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def ask(url: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """One request: a POST where there is a body."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("GET" if body is None else "POST", path, body, named)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def send(url: str, body: bytes) -> None:
    """One export request of spans that has to be taken whole."""
    assert ask(url, "/v1/traces", body, content_type="application/x-protobuf") == (200, b"")


def exported(target: str | None, body: bytes) -> ExportTraceServiceResponse:
    """The same over gRPC."""
    assert target is not None
    with grpc.insecure_channel(target) as channel:
        export = channel.unary_unary(EXPORT, response_deserializer=ExportTraceServiceResponse.FromString)
        return export(body, timeout=30)


def test_spans_of_both_transports_become_tasks() -> None:
    """Added up when they are asked for, at the latest."""
    with collecting() as collected:
        collector = collected.collector
        send(collector.otlp_http_url, agent_request(1, calls=3))
        send(collector.url, agent_request(2))
        assert not exported(collector.otlp_grpc_target, agent_request(3)).HasField("partial_success")
        collector.up_to_date()
        calls = {task.task_id: task.calls for task in collector.store.tasks()}
    assert calls == {f"trace:{1:032x}": 3, f"trace:{2:032x}": 1, f"trace:{3:032x}": 1}


def test_what_was_stored_is_added_up_at_the_end(tmp_path: Path) -> None:
    """Closing waits for it, and the lock file is gone."""
    database = tmp_path / "a.duckdb"
    with collecting(database=database) as collected:
        collector = collected.collector
        send(collector.otlp_http_url, agent_request(1))
        lock = read_lock(database)
        assert lock is not None
        assert (lock.url, lock.otlp_http) == (collector.url, collector.otlp_http_url)
        assert lock.otlp_grpc == collector.otlp_grpc_target
    assert read_lock(database) is None
    with open_store(database, read_only=True) as store:
        assert [task.calls for task in store.tasks()] == [1]


def test_a_task_is_added_up_without_being_asked_for() -> None:
    """As soon as its root has come and nothing more."""
    told = threading.Event()
    with collecting(hooks=Hooks(added_up=lambda summary, spans: told.set())) as collected:
        collector = collected.collector
        send(collector.otlp_http_url, agent_request(1))
        assert told.wait(20)
        assert [task.calls for task in collector.store.tasks()] == [1]


def evaluation(trace: int, label: str, **attributes: Any) -> bytes:
    """An export request of logs in JSON with one evaluation of a trace."""
    found = {"gen_ai.evaluation.score.label": label, **attributes}
    pairs = [{"key": key, "value": {"stringValue": str(value)}} for key, value in found.items()]
    record = {
        "eventName": "gen_ai.evaluation.result",
        "timeUnixNano": "1700000000000000000",
        "traceId": f"{trace:032x}",
        "attributes": pairs,
    }
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, {}]}]}]}).encode()


@pytest.mark.parametrize("first", ["spans", "evaluation"])
def test_an_evaluation_becomes_the_outcome_of_its_task(first: str) -> None:
    """Whichever of the two comes first."""
    with collecting() as collected:
        collector = collected.collector
        sent = {
            "spans": ("/v1/traces", agent_request(1), "application/x-protobuf"),
            "evaluation": ("/v1/logs", evaluation(1, "Pass"), "application/json"),
        }
        for name in sorted(sent, key=lambda name: name != first):
            path, body, content_type = sent[name]
            assert ask(collector.otlp_http_url, path, body, content_type=content_type)[0] == 200
            collector.up_to_date()
        (task,) = collector.store.tasks()
        figures = ask(collector.url, "/metrics")[1].decode()
    assert task.outcome == "success"
    assert "agentprof_records_dropped_total 1.0" in figures


def test_an_outcome_recorded_here_is_in_the_summary_at_once() -> None:
    """Of a task that was added up before."""
    with collecting() as collected:
        collector = collected.collector
        send(collector.otlp_http_url, agent_request(1))
        collector.up_to_date()
        task_id = f"trace:{1:032x}"
        collector.record_outcome(OutcomeFact(task_id=task_id, outcome="failure", score=0.25, recorded_ns=5))
        task = collector.store.task(task_id)
    assert task is not None
    assert (task.outcome, task.score) == ("failure", 0.25)


def test_energy_that_is_sent_is_in_the_summary_of_its_time() -> None:
    """Of a task that was added up before; what cannot be a window is refused, and nothing of its request is kept."""
    with collecting() as collected:
        collector = collected.collector
        more: dict[str, Any] = {"server__address": "gpu1", "server__port": 8000}
        more |= {"agentprof__phase__queue": 0.0, "agentprof__phase_source__queue": "reported"}
        pipeline = Pipeline(collector.store, PRICER)
        pipeline.accept([task_span("1" * 32, "t"), call_span("1" * 32, "t", "c", **more)])
        pipeline.recompute()
        good = {
            "server": "gpu1",
            "node": "n",
            "start_ns": T0,
            "end_ns": T0 + 4 * SECOND,
            "energy_uj": 800 * 10**6,
        }
        good |= {"running_low": 1, "running_high": 2}

        def post(*windows: dict[str, object]) -> tuple[int, str]:
            sent = json.dumps({"windows": windows}).encode()
            status, body = ask(collector.url, "/api/v1/energy", sent, content_type="application/json")
            return status, body.decode()

        for wrong in (
            {"end_ns": T0},
            {"energy_uj": -1},
            {"running_high": 0},
            {"server": ""},
            {"tokens": -1},
            {"end_ns": T0 + 86_401 * SECOND},
            {"start_ns": 2**62 - 1, "end_ns": 2**62},
            {"start_ns": time.time_ns() + 90_000 * SECOND, "end_ns": time.time_ns() + 90_001 * SECOND},
        ):
            status, said = post(good, good | wrong)
            assert (status, "windows[1]: expected" in said) == (400, True), said
        assert post(good, {"server": "gpu1"})[0] == 400
        assert collector.store.windows_of(["gpu1"], 0, 2**62) == []
        # As many as may be in one request, with names as long as they may be.
        named = {"server": "s" * 256, "node": "n" * 256}
        assert post(*[good | named | {"start_ns": T0 + at} for at in range(200)])[0] == 200
        assert post(good) == (200, '{"schema":1,"windows":1}')
        collector.up_to_date(["t"])
        task = collector.store.task("t")
    assert task is not None
    assert task.energy_j == {"low": 100.0, "high": 200.0}


def test_it_says_how_it_is() -> None:
    """Health for whoever restarts it, figures for Prometheus."""
    with collecting() as collected:
        collector = collected.collector
        send(collector.otlp_http_url, agent_request(1, calls=4))
        for url in (collector.url, collector.otlp_http_url):
            status, body = ask(url, "/healthz")
            assert (status, json.loads(body)) == (200, {"status": "ok", "troubles": []})
        figures = ask(collector.url, "/metrics")[1].decode()
    assert "agentprof_spans_stored_total 5.0" in figures
    assert 'agentprof_requests_total{answer="200",signal="traces",transport="http"} 1.0' in figures


def test_beyond_loopback_a_token_is_asked_of_everyone() -> None:
    """Over HTTP as over gRPC; the health is for whoever restarts it."""
    secret = "a-secret-of-some-length"
    with collecting(token=secret) as collected:
        collector = collected.collector
        body = agent_request(1)
        kind = {"content_type": "application/x-protobuf"}
        for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": secret}):
            assert ask(collector.otlp_http_url, "/v1/traces", body, **kind, **wrong)[0] == 401
            assert ask(collector.url, "/api/v1/tasks", **wrong)[0] == 401
        with pytest.raises(grpc.RpcError) as refused:
            exported(collector.otlp_grpc_target, body)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        right = {"authorization": f"Bearer {secret}"}
        assert ask(collector.otlp_http_url, "/v1/traces", body, **kind, **right)[0] == 200
        assert ask(collector.url, "/api/v1/tasks", **right)[0] == 200
        assert ask(collector.url, "/healthz")[0] == 200


def said_in(content: dict[str, str]) -> bytes:
    """An export request in JSON with one call that holds what was said."""
    found = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **content}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in found.items()]
    span = {"traceId": "5" * 32, "spanId": "5" * 16, "name": "chat", "startTimeUnixNano": "5"}
    span |= {"endTimeUnixNano": "9", "attributes": pairs}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


@pytest.mark.parametrize("keep_content", [True, False])
@pytest.mark.parametrize("media", ["json", "protobuf"])
def test_what_was_said_is_kept_only_where_that_is_asked_for(
    media: str, keep_content: bool, tmp_path: Path
) -> None:
    """In the store as in the API, in both encodings; never in a summary."""
    content = {"gen_ai.input.messages": "a canary", "gen_ai.prompt.0.content": "a canary too"}
    body = said_in(content)
    if media == "protobuf":
        message = json_format.ParseDict(
            json.loads(
                body.decode().replace("5" * 32, "BQUFBQUFBQUFBQUFBQUFBQ==").replace("5" * 16, "BQUFBQUFBQU=")
            ),
            ExportTraceServiceRequest(),
        )
        body = message.SerializeToString()
    content_type = {"json": "application/json", "protobuf": "application/x-protobuf"}[media]
    with collecting(database=tmp_path / "a.duckdb", keep_content=keep_content) as collected:
        collector = collected.collector
        assert ask(collector.otlp_http_url, "/v1/traces", body, content_type=content_type)[0] == 200
        collector.up_to_date()
        (task,) = collector.store.tasks()
        path = f"/api/v1/tasks/{task.task_id}"
        found = json.loads(ask(collector.url, f"{path}/content")[1])
        summary = ask(collector.url, path)[1] + ask(collector.url, f"{path}/waterfall")[1]
        spans = collector.store.spans_of(task.trace_ids)
    assert [span["content"] for span in found["spans"]] == ([content] if keep_content else [])
    assert b"canary" not in summary
    assert any("canary" in repr(span) for span in spans) is keep_content
