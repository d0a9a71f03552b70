"""Nothing private is on a page or in an answer of the API, whatever senders put into their spans."""

from __future__ import annotations

import http.client
import json
from typing import Any

from support.markup import Markup
from support.serving import Server

from agentprof.config import load_config
from agentprof.pricing import Pricer
from agentprof_collector.api.operations import OPERATIONS
from agentprof_collector.collect.collector import Collector, Options
from agentprof_collector.stores import open_store

MARK = "canary-7f3a"
CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.content",
    "gen_ai.evaluation.explanation",
    "llm.input_messages.0.message.content",
    "llm.output_messages.0.message.content",
    "llm.prompts",
    "input.value",
    "output.value",
    "tool.parameters",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "http.request.header.authorization",
    "url.full",
    "url.query",
    "http.url",
    "exception.message",
    "exception.stacktrace",
    "db.query.text",
    "session.id.secret",
)


def attribute(key: str, value: str) -> dict[str, Any]:
    """As in OTLP."""
    return {"key": key, "value": {"stringValue": value}}


def request() -> bytes:
    """A task with a call and a tool, all with every kind of content, in attributes, events and messages."""
    secrets = [attribute(key, f"{MARK} {key}") for key in CONTENT]
    kinds = (
        [attribute("agentprof.task.id", "private"), attribute("agentprof.task.name", "private task")],
        [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.request.model", "gpt-4o")],
        [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "look")],
    )
    spans = [
        {
            "traceId": "a" * 32,
            "spanId": f"{number + 1:016x}",
            **({"parentSpanId": f"{1:016x}"} if number else {}),
            "name": f"span {number}",
            "startTimeUnixNano": str(1_790_000_000_000_000_000 + number * 1_000_000_000),
            "endTimeUnixNano": str(1_790_000_003_000_000_000),
            "status": {"code": 2, "message": f"{MARK} status"},
            "attributes": [*kind, *secrets],
            "events": [{"name": "exception", "timeUnixNano": "1", "attributes": secrets}],
            "traceState": f"x={MARK}",
        }
        for number, kind in enumerate(kinds)
    ]
    resource = {"attributes": [attribute("service.name", "worker"), *secrets]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


def test_content_reaches_no_page_and_no_answer() -> None:
    """Every operation of the API, every page, the figures and the health of a real collector."""
    with Collector(open_store(None), None, Pricer(load_config(None)), Options()) as collector:
        connection = http.client.HTTPConnection(collector.otlp_http_url.removeprefix("http://"), timeout=30)
        connection.request("POST", "/v1/traces", request(), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        connection.close()
        server = Server(int(collector.url.rpartition(":")[2]))
        found = {}
        for operation in OPERATIONS:
            by = {"parts": "?by=tool", "rates": "?by=context"}.get(operation.path.rpartition("/")[2], "")
            path = operation.path.replace("{id}", "private") + by
            if operation.method == "GET":
                found[path] = server.ask(path)
        pages = ("/", "/?group_by=name", "/tasks/private", "/metrics", "/healthz")
        found |= {path: server.ask(path) for path in pages}
    assert {path: answered.status for path, answered in found.items()} == dict.fromkeys(found, 200)
    assert [path for path, answered in found.items() if MARK in answered.text] == []
    assert "private task" in Markup(found["/tasks/private"].text).text
    assert found["/api/v1/tasks/private/waterfall"].document["count"] == 3


def test_content_that_is_kept_stands_in_its_own_place() -> None:
    """Where the collector was told to keep it, the page says where it is, and shows none of it."""
    with Collector(
        open_store(None), None, Pricer(load_config(None)), Options(keep_content=True)
    ) as collector:
        connection = http.client.HTTPConnection(collector.otlp_http_url.removeprefix("http://"), timeout=30)
        connection.request("POST", "/v1/traces", request(), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        connection.close()
        server = Server(int(collector.url.rpartition(":")[2]))
        page = server.ask("/tasks/private").text
        kept = server.ask("/api/v1/tasks/private/content").text
        lists = [server.ask(path).text for path in ("/", "/api/v1/calls", "/api/v1/tasks/private/waterfall")]
    assert Markup(page).of("a", href="/api/v1/tasks/private/content")
    assert MARK in kept
    assert [text for text in (page, *lists) if MARK in text] == []
