"""A task in the program's baggage: other processes of it work for the task; hosts of models never learn of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests
from opentelemetry import baggage, propagate
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from support.model_server import CHAT, ModelServer, Reply
from support.spans import TASK, call, task, tool

import agentprof
from agentprof import _baggage, attributes
from agentprof._task import RemoteTask, by_id
from agentprof.model import RawSpan
from agentprof.rollup import roll_up, tasks_in
from agentprof.testing import Captured, capture
from agentprof.vocabularies import normalise

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

# What a service does for a request: takes the context of who asked from its headers.
SERVICE = """
import json, sys
import httpx
from opentelemetry import context, propagate
import agentprof
from agentprof.testing import capture

url, headers, body = json.loads(sys.argv[1])
with capture(propagate_to=()) as captured:
    context.attach(propagate.extract(headers))
    httpx.post(f"{url}/chat/completions", json=body)
    with agentprof.step("look"):
        pass
    with agentprof.task("inner"):
        pass
print(json.dumps([dict(span.attributes) for span in captured.spans]))
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model endpoint."""
    with ModelServer() as running:
        running.replies = [Reply.json(CHAT)]
        yield running


@pytest.fixture
def captured() -> Iterator[Captured]:
    """The process instrumented; requests carry nothing of ours."""
    with capture(propagate_to=()) as spans:
        yield spans


def injected() -> dict[str, str]:
    """What an instrumentation of the program sends on from here."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def received(headers: dict[str, str]) -> Context:
    """The context of a request that came in."""
    return propagate.extract(headers, Context())


def span_of(said: dict[str, Any], span_id: int, start: int) -> RawSpan:
    return RawSpan(
        trace_id="1" * 32, span_id=f"{span_id:016x}", start_ns=start, end_ns=start + 5, attributes=said
    )


def test_another_process_works_for_the_task(server: ModelServer, captured: Captured) -> None:
    """Its calls and steps are the task's, tasks inside are below it, and what it asks again is a repeat."""
    with agentprof.task("t", id="task-1"):
        httpx.post(f"{server.url}/chat/completions", json=BODY)
        headers = injected()
    argument = json.dumps([server.url, headers, BODY])
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, argument], capture_output=True, text=True, check=True
    )
    asked, step, inner = json.loads(done.stdout)
    assert asked[attributes.TASK_ID] == step[attributes.TASK_ID] == "task-1"
    assert inner[attributes.TASK_PARENT_ID] == "task-1"
    ours = dict(captured.spans[0].attributes or {})
    assert asked[attributes.FINGERPRINT_REQUEST] == ours[attributes.FINGERPRINT_REQUEST]
    assert asked[attributes.FINGERPRINT_PREFIX] == list(ours[attributes.FINGERPRINT_PREFIX])  # type: ignore[arg-type]
    begin = dict(captured.spans[1].attributes or {})
    raw = [span_of(begin, 1, 0), span_of(ours, 2, 10), span_of(asked, 3, 30)]
    summary = roll_up("task-1", tasks_in(map(normalise, raw))["task-1"])
    assert (summary.calls, summary.repeats["call"]) == (2, 1)


def test_without_the_key_repeats_are_unknown(captured: Captured, server: ModelServer) -> None:
    """Two processes whose calls name one task and share no key: null, and a warning."""
    said = []
    for _ in range(2):
        with agentprof.task("t", id="shared"):
            httpx.post(f"{server.url}/chat/completions", json=BODY)
        said += [dict(span.attributes or {}) for span in captured.spans]
        captured.spans.clear()
        agentprof._task._known.clear()  # type: ignore[attr-defined]
    first, begin, second, _ = said
    raw = [span_of(begin, 1, 0), span_of(first, 2, 10), span_of(second, 3, 30)]
    summary = roll_up("shared", tasks_in(map(normalise, raw))["shared"])
    assert (summary.calls, summary.repeats["call"], summary.retries["call"]) == (2, None, None)
    assert (summary.repeats["tool"], summary.retries["tool"]) == (0, 0)
    assert "different_keys" in {warning.code for warning in summary.warnings}


def test_calls_and_tools_are_compared_apart() -> None:
    """Calls of one process and tools of another: each can be compared."""
    found = roll_up(
        TASK,
        [
            task("root", 0, 100),
            call("a", 0, 10, "root", fingerprint="k1-x"),
            call("b", 20, 30, "root", fingerprint="k1-x"),
            tool("c", 40, 50, "root", fingerprint="k2-x"),
        ],
    )
    assert (found.repeats["call"], found.repeats["tool"]) == (1, 0)
    assert found.warnings == []


def test_a_task_carried_on_keeps_its_key(captured: Captured, server: ModelServer) -> None:
    """Under the same id in the same process, as long as somebody holds it."""
    with agentprof.task("t", id="goes-on") as held:
        httpx.post(f"{server.url}/chat/completions", json=BODY)
    with agentprof.task("t", id="goes-on"):
        httpx.post(f"{server.url}/chat/completions", json=BODY)
    first, _, second, _ = (span.attributes or {} for span in captured.spans)
    assert first[attributes.FINGERPRINT_REQUEST] == second[attributes.FINGERPRINT_REQUEST]
    assert by_id("goes-on") is not held


class _Injecting(httpx.BaseTransport):
    """Writes the context into requests, as instrumentations of the library do; keeps what is sent."""

    def __init__(self, answer: Any = None) -> None:
        self.sent: list[dict[str, str]] = []
        self._answer = answer
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        propagate.inject(request.headers)
        self.sent.append(dict(request.headers))
        return self._real.handle_request(request) if self._answer is None else httpx.Response(200, json={})

    def close(self) -> None:
        self._real.close()


def test_a_host_of_models_does_not_get_it(server: ModelServer, captured: Captured) -> None:
    """Neither with the SDK nor without; the rest of the program's baggage goes where it goes without us."""
    transport = _Injecting()
    token = otel_context.attach(baggage.set_baggage("tenant", "acme"))
    with httpx.Client(transport=transport) as client, agentprof.task("t", id="hidden"):
        client.post(f"{server.url}/chat/completions", json=BODY)
        with openai.OpenAI(base_url=server.url, api_key="x", http_client=client) as sdk:  # type: ignore[arg-type]
            sdk.chat.completions.create(model="m", messages=BODY["messages"])
        other = injected()
    otel_context.detach(token)
    assert [sent["baggage"] for sent in transport.sent] == ["tenant=acme"] * 2
    assert "agentprof.task.id=hidden" in other["baggage"]
    assert [(span.attributes or {})[attributes.TASK_ID] for span in captured.spans[:2]] == ["hidden"] * 2


def test_baggage_that_the_program_adds_inside(server: ModelServer, captured: Captured) -> None:
    """Goes to a host of models too, as it does without us; the task still does not."""
    transport = _Injecting()
    with httpx.Client(transport=transport) as client, agentprof.task("t", id="hidden"):
        token = otel_context.attach(baggage.set_baggage("step", "one"))
        client.post(f"{server.url}/chat/completions", json=BODY)
        with agentprof.task("inner", id="inner"):
            client.post(f"{server.url}/chat/completions", json=BODY)
        otel_context.detach(token)
    assert [sent["baggage"] for sent in transport.sent] == ["step=one"] * 2
    ids = [(span.attributes or {})[attributes.TASK_ID] for span in captured.spans if "chat" in span.name]
    assert ids == ["hidden", "inner"]


@pytest.mark.usefixtures("captured")
def test_a_known_provider_does_not_get_it_with_other_requests() -> None:
    """Such as calls of a kind that is not recorded; any other host does."""
    transport = _Injecting(answer={})
    with httpx.Client(transport=transport) as client, agentprof.task("t", id="hidden"):
        client.post("https://api.anthropic.com/v1/other", json=BODY)
        client.get("https://service.example/answer")
        assert "agentprof.task.id=hidden" in injected()["baggage"]
    provider, service = transport.sent
    assert "baggage" not in provider
    assert "agentprof.task.id=hidden" in service["baggage"]


@pytest.mark.usefixtures("captured")
def test_requests_whose_instrumentation_stands_above(server: ModelServer) -> None:
    """It writes into the request before we see it: what goes to a model has it no more."""

    class Session(requests.Session):
        def send(self, request: Any, **kwargs: Any) -> Any:
            propagate.inject(request.headers)
            return super().send(request, **kwargs)

    token = otel_context.attach(baggage.set_baggage("tenant", "acme"))
    with Session() as session, agentprof.task("t", id="hidden"):
        session.post(f"{server.url}/chat/completions", json=BODY)
        session.get(f"{server.url}/own/service")
    otel_context.detach(token)
    to_model, to_service = (sent.headers["baggage"] for sent in server.sent)
    assert to_model == "tenant=acme"
    assert "agentprof.task.id=hidden" in to_service


@pytest.mark.usefixtures("captured")
def test_aiohttp_with_an_instrumentation(server: ModelServer) -> None:
    """Its hooks run inside the request."""

    async def inject(session: Any, context: Any, params: Any) -> None:
        propagate.inject(params.headers)

    async def main() -> None:
        config = aiohttp.TraceConfig()
        config.on_request_start.append(inject)
        async with aiohttp.ClientSession(trace_configs=[config]) as session:
            with agentprof.task("t", id="hidden"):
                await (await session.post(f"{server.url}/chat/completions", json=BODY)).read()
                await (await session.get(f"{server.url}/own/service")).read()

    asyncio.run(main())
    to_model, to_service = (sent.headers for sent in server.sent)
    assert "baggage" not in to_model
    assert "agentprof.task.id=hidden" in to_service["baggage"]


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize(
    ("task_id", "key"),
    [("", "00" * 16), ("x" * 257, "00" * 16), ("foreign", "zz"), ("foreign", None), ("foreign", "00" * 17)],
)
def test_baggage_that_others_wrote(task_id: str, key: str | None) -> None:
    """An id that cannot be one is none; without a proper key hashes are those of the process."""
    context = baggage.set_baggage(_baggage.TASK, task_id, Context())
    if key is not None:
        context = baggage.set_baggage(_baggage.KEY, key, context)
    token = otel_context.attach(context)
    found = agentprof.current_task()
    otel_context.detach(token)
    if task_id == "foreign":
        assert isinstance(found, RemoteTask)
        assert found.id == task_id
    else:
        assert found is None


@pytest.mark.usefixtures("captured")
def test_a_stranger_cannot_take_a_task_over() -> None:
    """Who names a task of this process with another key gets another one; what is kept of them is bounded."""
    with agentprof.task("t", id="ours") as ours:
        named = injected()
        stranger = {"baggage": f"{_baggage.TASK}=ours,{_baggage.KEY}={'00' * 16}"}
        for headers, same in ((named, True), (stranger, False)):
            token = otel_context.attach(received(headers))
            assert (agentprof.current_task() is ours) is same
            otel_context.detach(token)
        assert by_id("ours") is ours
    for number in range(1000):
        _baggage.task_in(received({"baggage": f"{_baggage.TASK}=t{number}"}))
    assert len(_baggage._remote) <= 256
    assert ours.summary().complete


@pytest.mark.usefixtures("captured")
def test_the_context_ends_with_the_task() -> None:
    """Before and after nothing of it is sent on."""
    assert "baggage" not in injected()
    with agentprof.task("outer", id="outer"):
        with agentprof.task("inner", id="inner"):
            assert "agentprof.task.id=inner" in injected()["baggage"]
        assert "agentprof.task.id=outer" in injected()["baggage"]
    assert "baggage" not in injected()


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("task_id", ["a b", 'ö,=;%\n"', "x" * 256, "+"])
def test_ids_of_every_kind_arrive(task_id: str) -> None:
    """As they are."""
    with agentprof.task("t", id=task_id):
        headers = injected()
    found = _baggage.task_in(received(headers))
    assert found is not None
    assert found.id == task_id


def test_nothing_is_carried_while_agentprof_is_off() -> None:
    """A program with marks, in which nobody has switched it on, sends what it always sends."""
    with agentprof.task("t"):
        assert "baggage" not in injected()


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        ("agentprof.task.id=a,agentprof.task.key=b", ""),
        ("x=1,agentprof.task.id=a, y=2;p=agentprof.task.id", "x=1, y=2;p=agentprof.task.id"),
        ("x=1", "x=1"),
    ],
)
def test_a_header_without_the_task(header: str, rest: str) -> None:
    """Other members stay as they were written."""
    assert _baggage.rewritten(header) == rest
