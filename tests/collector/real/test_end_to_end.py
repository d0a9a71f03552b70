"""From an instrumented program by way of the real OpenTelemetry Collector to Jaeger and to agentprof."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.late_engine import JOINED, MS, the_client, the_engine
from support.real_programs import (
    ROOT,
    AgentprofCollector,
    Jaeger,
    OtelCollector,
    eventually,
    fetch,
    free_ports,
)

from agentprof import attributes as a
from agentprof_collector.stores import open_store

SPANS, CALLS = 7, 3
"""Of the profiled program: a task, one in it, three calls, a step, a tool."""


class Chain(NamedTuple):
    """The programs of docker-compose.yml."""

    otelcol: OtelCollector
    agentprof: AgentprofCollector
    jaeger: Jaeger


@pytest.fixture
def chain(jaeger: Jaeger, tmp_path: Path) -> Iterator[Chain]:
    """All three, connected as there."""
    with AgentprofCollector(
        tmp_path / "agentprof", f"--phase-spans-to={jaeger.otlp_http}", f"--jaeger-url={jaeger.api}"
    ) as agentprof:
        assert isinstance(agentprof, AgentprofCollector)
        with OtelCollector(
            tmp_path / "otelcol", jaeger_grpc=jaeger.otlp_grpc, agentprof_http=agentprof.otlp_http
        ) as otelcol:
            assert isinstance(otelcol, OtelCollector)
            yield Chain(otelcol, agentprof, jaeger)


def test_program_collector_and_jaeger_say_the_same(
    chain: Chain, run_agent: Callable[[str], dict[str, Any]]
) -> None:
    """The collector's summary is the program's own, field by field; in Jaeger each call has its phases below it,
    and they add up to what the summary says."""
    said = run_agent(chain.otelcol.http)
    task_id = said["task_id"]
    (trace_id,) = said["trace_ids"]

    def whole() -> dict[str, Any] | None:
        found = chain.agentprof.task(task_id)
        return found if found is not None and found["complete"] else None

    found = eventually(whole, "the task")
    assert {name: found[name] for name in said} == said
    assert found.keys() == said.keys()

    def drawn() -> list[dict[str, Any]] | None:
        spans = chain.jaeger.spans(trace_id)
        calls = {span["spanId"] for span in spans if span["attributes"].get(a.OPERATION) == "chat"}
        below = {span["parentSpanId"] for span in spans if span["attributes"].get(a.EVIDENCE) == "phase"}
        return spans if len(calls) == 3 and below == calls else None

    spans = eventually(drawn, "the phases in Jaeger")
    phases = [span for span in spans if span["attributes"].get(a.EVIDENCE) == "phase"]
    assert {span["service"] for span in phases} == {"profiled-agent"}
    by_phase: Counter[str] = Counter()
    for span in phases:
        assert span["name"] == span["attributes"][a.PHASE_SPAN_NAME]
        by_phase[span["name"]] += duration(span)
    # Jaeger's badger keeps microseconds: each of the phases may have lost up to one at both ends.
    for part in ("wait", "prefill", "generation", "backoff", "failed_attempt"):
        assert said["busy_ns"][part] > 0, part
        assert by_phase[part] == pytest.approx(said["busy_ns"][part], abs=2_000 * len(phases))
    for call in (span for span in spans if span["attributes"].get(a.OPERATION) == "chat"):
        below = sorted(
            (span for span in phases if span["parentSpanId"] == call["spanId"]),
            key=lambda span: int(span["startTimeUnixNano"]),
        )
        assert below[0]["startTimeUnixNano"] == call["startTimeUnixNano"]
        assert sum(map(duration, below)) == pytest.approx(duration(call), abs=2_000 * len(below))
        # As the call itself says, where it says so.
        for name in ("prefill", "generation"):
            if a.PHASE + name in call["attributes"]:
                (phase,) = (span for span in below if span["name"] == name)
                assert duration(phase) / 1e9 == pytest.approx(call["attributes"][a.PHASE + name], abs=1e-5)
                assert phase["attributes"][a.PHASE_SPAN_SOURCE] == call["attributes"][a.PHASE_SOURCE + name]


def test_what_an_engine_says_after_the_call_is_in_jaeger(chain: Chain) -> None:
    """Its spans come to the collector in a trace of their own; the call is drawn once, divided by them."""
    trace_id = uuid.uuid4().hex
    for body in the_client(trace_id, "late engine"):
        post(f"{chain.otelcol.http}/v1/traces", body)
    eventually(lambda: chain.agentprof.task("late engine"), "the task")
    post(f"{chain.otelcol.http}/v1/traces", the_engine(uuid.uuid4().hex, ""))

    def drawn() -> list[dict[str, Any]] | None:
        spans = [span for span in chain.jaeger.spans(trace_id) if a.PHASE_SPAN_NAME in span["attributes"]]
        return sorted(spans, key=lambda span: int(span["startTimeUnixNano"])) or None

    spans = eventually(drawn, "the phases in Jaeger")
    assert [
        (span["name"], duration(span) / MS, span["attributes"][a.PHASE_SPAN_SOURCE]) for span in spans
    ] == JOINED


def post(url: str, body: bytes) -> None:
    """An export request in JSON."""
    asked = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 200


def test_links_lead_there_and_back(chain: Chain, run_agent: Callable[[str], dict[str, Any]]) -> None:
    """From the page of a task to its trace in Jaeger; from what Jaeger has of it to the page, as its file says."""
    said = run_agent(chain.otelcol.http)
    eventually(lambda: chain.agentprof.task(said["task_id"]), "the task")
    ui = json.loads((ROOT / "collector" / "jaeger-ui.json").read_text())
    (pattern,) = ui["linkPatterns"]
    (trace_id,) = said["trace_ids"]
    spans = eventually(lambda: chain.jaeger.spans(trace_id) or None, "the trace")
    value = next(span["attributes"][pattern["key"]] for span in spans if pattern["key"] in span["attributes"])
    # Jaeger puts the value in percent-encoded.
    link = pattern["url"].replace("#{" + pattern["key"] + "}", urllib.parse.quote(value, safe=""))
    path = link.removeprefix("http://localhost:8321")
    page = fetch(f"{chain.agentprof.url}{path}")
    assert page is not None
    assert f'href="{chain.jaeger.api}/trace/{trace_id}"' in page.decode()
    assert fetch(f"{chain.jaeger.api}/trace/{trace_id}") is not None


def duration(span: dict[str, Any]) -> int:
    """In nanoseconds."""
    return int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])


def test_the_token_opens_agentprof_to_the_opentelemetry_collector(
    jaeger: Jaeger, run_agent: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    """As in docker-compose.yml: both have it by their environment; health is told without, nothing else is."""
    token = "a-secret-of-some-length"
    collector = AgentprofCollector(tmp_path / "agentprof", token=token)
    with collector:
        address = collector.otlp_http
        with OtelCollector(
            tmp_path / "otelcol", jaeger_grpc=jaeger.otlp_grpc, agentprof_http=address, token=token
        ) as otelcol:
            assert isinstance(otelcol, OtelCollector)
            said = run_agent(otelcol.http)
            eventually(lambda: collector.task(said["task_id"]), "the task")
        assert fetch(f"{collector.url}/healthz") is not None
        assert fetch(f"{collector.url}/api/v1/tasks") is None
        assert fetch(f"{collector.url}/api/v1/tasks", token="another-secret-of-a-length") is None
        assert fetch(f"{collector.url}/api/v1/tasks", token=token) is not None


def test_phase_spans_that_come_back_end_there(
    run_agent: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    """A collector that sends them to itself counts nothing of them, and sends none again."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    collector = AgentprofCollector(tmp_path / "agentprof", f"--phase-spans-to={address}")
    collector.otlp_http = address
    with collector:
        # What would be drawn again would be so when the next task comes, at the latest.
        traces = [trace_id for _ in range(2) for trace_id in sent_and_drawn(collector, run_agent)]
        stored = collector.metric("agentprof_spans_stored_total")
        sent = collector.metric("agentprof_phase_spans_sent")
    with open_store(collector.database) as store:
        spans = store.spans_of(traces)
    phases = [span for span in spans if span.evidence is not None]
    assert len(phases) == sent >= 2 * 3
    assert len(spans) == stored == 2 * SPANS + sent


def sent_and_drawn(collector: AgentprofCollector, run_agent: Callable[[str], dict[str, Any]]) -> list[str]:
    """The trace of a run whose phases have come back; its summary is what it was without them."""
    before = collector.metric("agentprof_spans_stored_total")
    said = run_agent(collector.otlp_http)

    def all_back() -> bool | None:
        came = collector.metric("agentprof_spans_stored_total") - before
        return came > SPANS + 2 * CALLS or None

    eventually(all_back, "the phases")
    assert collector.task(said["task_id"]) == said
    traces: list[str] = said["trace_ids"]
    return traces
