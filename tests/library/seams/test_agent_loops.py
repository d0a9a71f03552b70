"""Agents written by hand, without a mark, over the openai SDK: the time of their tools, and of nothing else."""

import asyncio
import contextvars
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.agent_loops import (
    MODEL,
    USER,
    Clock,
    asking,
    asking_responses,
    asking_streamed,
    called,
    chat_loop,
    responses_loop,
    use,
)
from support.anthropic_wire import MESSAGE
from support.model_server import CHAT, ModelServer, Reply

import agentprof
from agentprof import attributes
from agentprof._readable import to_raw
from agentprof.rollup import tasks_in
from agentprof.rollup.waterfall import waterfall
from agentprof.summary import TaskSummary
from agentprof.testing import Captured
from agentprof.vocabularies import normalise

NEAR_NS = 5_000_000
"""How much longer an inferred stretch is than its tool, in the middle: what a loop does around it."""
TRIES = 20
"""Of a whole agent: a machine that has other work does not give this program the processor each time."""
STALL_NS = 2_000_000_000
"""How much longer one stretch alone may be on such a machine; it is exactly what lies between two calls."""
LENGTHS_S = (0.05, 0.02, 0.04, 0.01, 0.03, 0.02, 0.06, 0.01, 0.03)
LAST = Reply.json(CHAT)


def client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", timeout=5, max_retries=0)


def inferred_ns(summary: TaskSummary) -> int:
    return summary.evidence_ns["tool"].get("inferred", 0)


def check_near(summary: TaskSummary, *tools_ns: int) -> None:
    """The inferred time is that of the tools: never less, and for each not much more."""
    found = inferred_ns(summary)
    assert sum(tools_ns) <= found <= sum(tools_ns) + STALL_NS * len(tools_ns)
    assert summary.timeline_ns["tool"] == found + summary.evidence_ns["tool"].get("observed", 0)
    assert sum(summary.timeline_ns.values()) == summary.wall_ns


@pytest.mark.parametrize("way", ["whole", "streamed", "responses"])
def test_the_time_of_tools_nobody_marks(server: ModelServer, captured: Captured, way: str) -> None:
    """As the SDK gives answers: whole, as a stream, or with the conversation kept at the provider."""
    asks = [(f"call_{n}", "weather") for n in range(len(LENGTHS_S))]

    def run(to: openai.OpenAI, clock: Clock, *lengths: float) -> None:
        calls, left = asks[: len(lengths)], iter(lengths)

        def tools(calls: Sequence[Any]) -> list[str]:
            return [clock.run(next(left)) for _ in calls]

        if way == "responses":
            answers = [asking_responses(n, call) for n, call in enumerate(calls)]
            server.replies = [*answers, asking_responses(9)]
            responses_loop(to, tools)
        elif way == "streamed":
            server.replies = [*map(asking_streamed, calls), asking_streamed()]
            chat_loop(to, tools, stream=True)
        else:
            server.replies = [*map(asking, calls), LAST]
            chat_loop(to, tools)

    def longer_ns(to: openai.OpenAI) -> list[int]:
        """One agent: by how much each inferred stretch is longer than its tool was by the clock around it."""
        clock = Clock()
        with agentprof.task("agent") as task:
            run(to, clock, *LENGTHS_S)
        summary = task.summary()
        assert len(clock.took_ns) == len(LENGTHS_S)
        check_near(summary, *clock.took_ns)
        spans = tasks_in([normalise(to_raw(span)) for span in captured.spans])[task.id]
        found = [row.duration_ns for row in waterfall(task.id, spans).rows if row.inferred]
        calls = sorted((span.start_ns, span.end_ns or 0) for span in spans if span.call is not None)
        assert found == [later - end for (_, end), (later, _) in pairwise(calls)]
        assert [(name, row.runs) for name, row in summary.tools.items()] == [("weather", 0)]
        row = next(row for row in summary.nodes if row.kind == "tool")
        assert (row.path, row.inferred_ns) == (["agent", "weather"], inferred_ns(summary))
        assert "weather (inferred)" in str(summary)
        return [inferred - took for inferred, took in zip(found, clock.took_ns, strict=True)]

    medians: list[float] = []
    with client(server) as to:
        run(to, Clock(), 0.0)  # the first time the SDK prepares its types before it makes a request
        while not medians or (min(medians) > NEAR_NS and len(medians) < TRIES):
            longer = longer_ns(to)
            assert min(longer) >= 0
            medians.append(median(longer))
    assert min(medians) <= NEAR_NS


def test_nothing_where_something_else_is_marked(server: ModelServer, captured: Captured) -> None:
    """A step, a wait for a person, another call and a marked tool keep their time to the nanosecond."""
    clock = Clock()
    server.replies = [asking(("a", "weather"), ("b", "news")), Reply.json(CHAT, 200), LAST]

    @agentprof.tool
    def news() -> str:
        return clock.run(0.03)

    def tools(calls: Sequence[Any]) -> list[str]:
        with agentprof.step("parse"):
            time.sleep(0.02)
        with agentprof.human():
            time.sleep(0.04)
        to.chat.completions.create(model="judge", messages=[{"role": "user", "content": "Is this wise?"}])
        return [clock.run(0.05), news()]

    with agentprof.task("agent") as task, client(server) as to:
        chat_loop(to, tools)
    summary = task.summary()
    check_near(summary, clock.took_ns[0])
    marked = {span.name: (span.end_time or 0) - (span.start_time or 0) for span in captured.spans}
    assert summary.timeline_ns["step"] == marked["parse"] >= 20_000_000
    assert summary.timeline_ns["human"] == marked["human"] >= 40_000_000
    assert summary.evidence_ns["tool"]["observed"] == marked["execute_tool news"] >= 30_000_000
    assert (summary.tools["news"].runs, summary.tools["news"].inferred_ns) == (1, 0)
    assert (summary.tools["weather"].runs, summary.tools["weather"].inferred_ns) == (0, inferred_ns(summary))


def test_nothing_where_every_tool_is_marked(server: ModelServer, captured: Captured) -> None:
    """What the loop does around them stays its own."""
    server.replies = [asking(("a", "weather")), LAST]

    @agentprof.tool
    def weather() -> str:
        time.sleep(0.02)
        return "rain"

    def tools(calls: Sequence[Any]) -> list[str]:
        time.sleep(0.03)
        return [weather() for _ in calls]

    with agentprof.task("agent") as task, client(server) as to:
        chat_loop(to, tools)
    summary = task.summary()
    assert "inferred" not in summary.evidence_ns["tool"]
    assert summary.timeline_ns["other"] >= 30_000_000


def test_tools_at_once_in_threads_are_one_stretch(server: ModelServer, captured: Captured) -> None:
    """As long as the slowest, under the names of all."""
    clock = Clock()
    server.replies = [asking(("a", "weather"), ("b", "news"), ("c", "weather")), LAST]

    def tools(calls: Sequence[Any]) -> list[str]:
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(clock.run, (0.05, 0.02, 0.03)))

    with agentprof.task("agent") as task, client(server) as to:
        chat_loop(to, tools)
    summary = task.summary()
    check_near(summary, max(clock.took_ns))
    assert list(summary.tools) == ["news + weather"]


def test_a_whole_loop_in_a_thread(server: ModelServer, captured: Captured) -> None:
    """With the context of the task carried there."""
    clock = Clock()
    server.replies = [asking(("a", "weather")), LAST]
    with agentprof.task("agent") as task, client(server) as to, ThreadPoolExecutor(1) as pool:
        context = contextvars.copy_context()
        pool.submit(context.run, chat_loop, to, lambda calls: [clock.run(0.04)]).result()
    check_near(task.summary(), clock.took_ns[0])


def test_results_sent_in_two_requests(server: ModelServer, captured: Captured) -> None:
    """The second tool's time goes on after the first request's answer."""
    clock = Clock()
    server.replies = [asking(("a", "weather"), ("b", "news")), LAST, LAST]
    results: list[Any] = [{"role": "tool", "tool_call_id": id, "content": "rain"} for id in "ab"]
    with agentprof.task("agent") as task, client(server) as to:
        answer = to.chat.completions.create(model=MODEL, messages=[USER])
        asked: Any = {
            "role": "assistant",
            "tool_calls": [use(**call) for call in called(answer.choices[0].message)],
        }
        clock.run(0.03)
        to.chat.completions.create(model=MODEL, messages=[USER, asked, results[0]])
        clock.run(0.05)
        to.chat.completions.create(model=MODEL, messages=[USER, asked, *results])
    summary = task.summary()
    check_near(summary, *clock.took_ns)
    found = {name: row.inferred_ns for name, row in summary.tools.items()}
    assert set(found) == {"news + weather", "news"}
    assert found["news"] >= clock.took_ns[1]


def test_a_loop_that_never_sends_the_results(server: ModelServer, captured: Captured) -> None:
    """Nobody knows what it did."""
    server.replies = [asking(("a", "weather")), LAST]
    with agentprof.task("agent") as task, client(server) as to:
        to.chat.completions.create(model=MODEL, messages=[USER])
        time.sleep(0.02)
        to.chat.completions.create(model=MODEL, messages=[USER])
        made_up: Any = [
            USER,
            {"role": "assistant", "tool_calls": [use("z", "weather")]},
            {"role": "tool", "tool_call_id": "z", "content": "rain"},
        ]
        to.chat.completions.create(model=MODEL, messages=made_up)
    summary = task.summary()
    assert summary.evidence_ns["tool"] == {}
    assert summary.timeline_ns["other"] >= 20_000_000
    assert summary.tools == {}


def test_agents_that_take_turns_in_one_task(server: ModelServer, captured: Captured) -> None:
    """Each instant counts once: the other's call has the time in which only one waits for its tool."""
    server.replies = [asking(("a", "weather")), asking(("b", "news")), LAST]
    stretches: list[tuple[int, int]] = []

    async def agent(to: openai.AsyncOpenAI, seconds: float) -> None:
        answer = await to.chat.completions.create(model=MODEL, messages=[USER])
        calls = called(answer.choices[0].message)
        began = time.perf_counter_ns()
        await asyncio.sleep(seconds)
        stretches.append((began, time.perf_counter_ns()))
        asked = {"role": "assistant", "tool_calls": [use(**call) for call in calls]}
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls]
        messages: Any = [USER, asked, *results]
        await to.chat.completions.create(model=MODEL, messages=messages)

    async def both() -> None:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="x", timeout=5) as to:
            await asyncio.gather(agent(to, 0.08), agent(to, 0.04))

    with agentprof.task("agents") as task:
        asyncio.run(both())
    summary = task.summary()
    begin, end = min(began for began, _ in stretches), max(ended for _, ended in stretches)
    assert 0 < inferred_ns(summary) <= end - begin + 2 * STALL_NS
    # What the calls inside that time do not own is the tools'.
    inside = sum(
        span.end_time - span.start_time
        for span in captured.named("chat")
        if span.end_time is not None and span.start_time is not None
    )
    assert inferred_ns(summary) >= end - begin - inside
    assert sum(summary.timeline_ns.values()) == summary.wall_ns
    assert sum(row.self.busy_ns for row in summary.nodes) == sum(summary.busy_ns.values())


def test_a_call_seen_by_two_instrumentations(server: ModelServer) -> None:
    """The anthropic SDK makes a span of its own for each call; the tools' time is the same, and counts once."""
    anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agentprof.instrument(tracer_provider=provider)
    clock = Clock()
    user = {"role": "user", "content": "What is the weather?"}
    asked: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 100}
    url = server.url.removesuffix("/v1")
    own: Any = {"tracer_provider": provider}
    try:
        with anthropic.Anthropic(base_url=url, api_key="x", open_telemetry=own) as to:
            server.replies = [Reply.json(MESSAGE)]
            to.messages.create(**asked, messages=[user])  # the first time the SDK prepares its types
            with agentprof.task("agent") as task:
                answer = to.messages.create(**asked, messages=[user])
                use = next(block for block in answer.content if block.type == "tool_use")
                result = {"type": "tool_result", "tool_use_id": use.id, "content": clock.run(0.04)}
                said = {"role": "assistant", "content": answer.content}
                to.messages.create(**asked, messages=[user, said, {"role": "user", "content": [result]}])
        summary = task.summary()
    finally:
        agentprof.uninstrument()
    scopes = {
        span.instrumentation_scope.name
        for span in exporter.get_finished_spans()
        if span.instrumentation_scope
    }
    assert scopes == {"agentprof", "com.anthropic.sdk.python"}
    assert summary.calls == 2
    check_near(summary, clock.took_ns[0])
    assert list(summary.tools) == ["look"]


def test_a_format_without_ids_and_without_an_sdk(server: ModelServer, captured: Captured) -> None:
    """Gemini over plain HTTP: results belong to the call of their tool's name."""
    clock = Clock()
    part = {"functionCall": {"name": "weather", "args": {}}}
    candidate = {"content": {"role": "model", "parts": [part, part]}, "finishReason": "STOP"}
    server.replies = [Reply.json({"candidates": [candidate]})]
    path = "/v1beta/models/gemini-2.5-pro:generateContent"
    contents: list[Any] = [{"role": "user", "parts": [{"text": "What is the weather?"}]}]
    with agentprof.task("agent") as task, httpx2.Client(base_url=server.url.removesuffix("/v1")) as to:
        answer = to.post(path, json={"contents": contents}).json()
        contents.append(answer["candidates"][0]["content"])
        text = clock.run(0.04)
        result = {"functionResponse": {"name": "weather", "response": {"result": text}}}
        contents.append({"role": "user", "parts": [result, result]})
        to.post(path, json={"contents": contents})
    summary = task.summary()
    check_near(summary, clock.took_ns[0])
    assert list(summary.tools) == ["weather"]


def test_what_spans_say_of_ids(server: ModelServer, captured: Captured) -> None:
    """Hashes, the same in the answer and in the request, of a call without tools nothing."""
    server.replies = [asking(("call_secret", "weather"), ("call_other", "news")), LAST, LAST]
    with agentprof.task("agent"), client(server) as to:
        chat_loop(to, lambda calls: ["rain" for _ in calls])
        to.chat.completions.create(model=MODEL, messages=[USER])
    first, second, third = [dict(span.attributes or {}) for span in captured.named("chat")]
    assert first[attributes.TOOL_CALL_IDS] == second[attributes.TOOL_RESULT_IDS]
    assert len(set(first[attributes.TOOL_CALL_IDS])) == 2  # type: ignore[arg-type]
    assert attributes.TOOL_RESULT_IDS not in first
    assert {attributes.TOOL_CALL_IDS, attributes.TOOL_RESULT_IDS}.isdisjoint(third)
    assert "secret" not in str(captured.named("chat")[0].to_json())


def test_a_task_without_tools_is_as_before(server: ModelServer, captured: Captured) -> None:
    """Idle time between calls is the program's own."""
    server.replies = [LAST]
    with agentprof.task("chat") as task, client(server) as to:
        for _ in range(2):
            to.chat.completions.create(model=MODEL, messages=[USER])
    spans = [(span.start_time or 0, span.end_time or 0) for span in captured.named("chat ")]
    between = sum(later[0] - earlier[1] for earlier, later in pairwise(sorted(spans)))
    assert task.summary().timeline_ns["other"] >= between > 0
    assert task.summary().timeline_ns["tool"] == 0
