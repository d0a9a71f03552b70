"""Rows of the catalogue of failures that are about frameworks: LangChain, LangGraph and LiteLLM over a real server."""

from __future__ import annotations

import asyncio
import operator
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from support import litellm_calls
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, chunk

import agentprof
from agentprof import attributes
from agentprof.testing import Captured

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("nothing_fails_inside")]

MODEL = "gpt-4o-mini"
ONE_CALL_USD = 100 * Decimal("0.15") / 1_000_000 + 6 * Decimal("0.60") / 1_000_000


def langchain_model(server: ModelServer, **more: Any) -> Any:
    """LangChain's model over the SDK of openai."""
    module = pytest.importorskip("langchain_openai", reason="LangChain is not installed")
    return module.ChatOpenAI(model=MODEL, base_url=server.url, api_key="x", max_retries=0, timeout=5, **more)


def summed(work: Callable[[], object]) -> dict[str, Any]:
    """The summary of a task that does something."""
    with agentprof.task("t") as task:
        work()
    return task.summary().to_dict()


def said_of(captured: Captured) -> list[dict[str, Any]]:
    """What the spans of calls say, in their order."""
    return [
        dict(span.attributes or {})
        for span in captured.spans
        if attributes.OPERATION in (span.attributes or {})
    ]


# --- LangChain -----------------------------------------------------------------------------------
@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """LangChain keeps answers and gives them again."""
    globals_ = pytest.importorskip("langchain_core.globals", reason="LangChain is not installed")
    if request.param == "memory":
        found = pytest.importorskip("langchain_core.caches").InMemoryCache()
    else:
        caches = pytest.importorskip(
            "langchain_community.cache", reason="langchain-community is not installed"
        )
        found = caches.SQLiteCache(database_path=str(tmp_path / "cache.db"))
    globals_.set_llm_cache(found)
    yield
    globals_.set_llm_cache(None)


@pytest.mark.parametrize("is_async", [False, True])
def test_t3_an_answer_from_the_cache_of_a_framework_is_no_call(
    server: ModelServer, captured: Captured, cache: None, is_async: bool
) -> None:
    """The same prompt twice: one request went out, and one is paid for."""
    server.replies = [Reply.json(CHAT)]
    model = langchain_model(server)

    def ask() -> Any:
        return asyncio.run(model.ainvoke("Say hello.")) if is_async else model.invoke("Say hello.")

    summary = summed(lambda: [ask(), ask()])
    assert len(server.sent) == 1
    assert summary["calls"] == 1
    assert (summary["tokens"]["input"], summary["tokens"]["output"]) == (100, 6)
    assert Decimal(summary["cost_usd"]) == ONE_CALL_USD
    assert summary["repeats"]["call"] == 0
    assert len(said_of(captured)) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_s4_streams_through_a_framework_have_times_and_a_model(
    server: ModelServer, captured: Captured, is_async: bool
) -> None:
    """First token, generation, the model that answered, and how the stream ended."""
    pieces: list[bytes | float] = [*STREAM[:1], 0.05, *STREAM[1:]]
    server.replies = [Reply.stream(pieces)]
    model = langchain_model(server, stream_usage=True)

    async def ask() -> list[Any]:
        return [piece async for piece in model.astream("Say hello.")]

    received = asyncio.run(ask()) if is_async else list(model.stream("Say hello."))
    assert "".join(piece.content for piece in received) == "Hello."
    (said,) = said_of(captured)
    assert said[attributes.RESPONSE_MODEL] == MODEL
    assert said[attributes.FIRST_TOKEN] >= 0.05
    assert said[attributes.FIRST_TOKEN] == said[attributes.FIRST_CONTENT]
    assert said[attributes.PHASE + "generation"] >= 0
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6


@pytest.mark.parametrize("is_async", [False, True])
def test_t5_usage_on_every_chunk_of_a_framework_is_not_added(
    server: ModelServer, captured: Captured, is_async: bool
) -> None:
    """The last snapshot holds, whatever the framework makes of them."""
    usages = [{"prompt_tokens": 9, "completion_tokens": n, "total_tokens": 9 + n} for n in (1, 2, 3)]
    pieces = [chunk({"content": "a"}, usage=usage) for usage in usages]
    server.replies = [Reply.stream([*pieces, chunk({}, "stop"), DONE])]
    model = langchain_model(server, stream_usage=True)

    async def ask() -> list[Any]:
        return [piece async for piece in model.astream("Say hello.")]

    tokens = summed(lambda: asyncio.run(ask()) if is_async else list(model.stream("Say hello.")))["tokens"]
    assert (tokens["input"], tokens["output"]) == (9, 3)


# --- LangGraph -----------------------------------------------------------------------------------
class Told(TypedDict):
    """What the nodes of the graph add to."""

    told: Annotated[list[str], operator.add]


def graph_of(server: ModelServer, is_async: bool, parallel: bool) -> Any:
    """Two nodes that each ask the model, one behind the other or both at once."""
    graphs = pytest.importorskip("langgraph.graph", reason="LangGraph is not installed")
    model = langchain_model(server)

    def node(state: Told) -> dict[str, list[str]]:
        return {"told": [model.invoke("Say hello.").content]}

    async def async_node(state: Told) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return {"told": [(await model.ainvoke("Say hello.")).content]}

    graph = graphs.StateGraph(Told)
    for name in ("first", "second"):
        graph.add_node(name, async_node if is_async else node)
    graph.add_edge(graphs.START, "first")
    graph.add_edge(graphs.START if parallel else "first", "second")
    graph.add_edge("second", graphs.END)
    return graph.compile()


@pytest.mark.parametrize(
    ("way", "is_async"),
    [("invoke", False)]  # async nodes run in a loop only
    + [(way, is_async) for way in ("ainvoke", "astream", "astream_events") for is_async in (False, True)],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_c1_the_steps_of_a_graph_stay_in_one_task(
    server: ModelServer, captured: Captured, way: str, parallel: bool, is_async: bool
) -> None:
    """Async and sync nodes, in the loop and in threads of the framework: one trace, one task, two calls."""
    server.replies = [Reply.stream() if way == "astream_events" else Reply.json(CHAT)]
    graph = graph_of(server, is_async, parallel)

    async def run() -> None:
        asked: Told = {"told": []}
        if way == "ainvoke":
            assert (await graph.ainvoke(asked))["told"] == ["Hello.", "Hello."]
        elif way == "astream":
            assert len([one async for one in graph.astream(asked)]) == 2
        else:
            assert [one async for one in graph.astream_events(asked, version="v2")]

    with agentprof.task("t") as task:
        if way == "invoke":
            assert graph.invoke({"told": []})["told"] == ["Hello.", "Hello."]
        else:
            asyncio.run(run())
    summary = task.summary().to_dict()
    assert summary["calls"] == len(server.sent) == 2
    assert len(summary["trace_ids"]) == 1
    assert {span.context.trace_id for span in captured.spans if span.context} == {
        int(summary["trace_ids"][0], 16)
    }
    assert {said[attributes.TASK_ID] for said in said_of(captured)} == {task.id}
    # How fast the machine is says nothing of whose calls they are.
    assert {warning["code"] for warning in summary["warnings"]} <= {"timing_faults"}


# --- LiteLLM -------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("provider", litellm_calls.STREAMED)
def test_b1_streams_of_litellm_keep_their_type(
    server: ModelServer, captured: Captured, provider: str, is_async: bool
) -> None:
    """Its own checks by class hold, by its own HTTP paths and by SDKs."""
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    litellm = litellm_calls.library()
    handler = pytest.importorskip("litellm.litellm_core_utils.streaming_handler")
    server.replies = [litellm_calls.good(provider, stream=True)]
    asked = litellm_calls.arguments(provider, server.url) | {"stream": True}

    async def ask() -> tuple[Any, list[Any]]:
        stream = await litellm.acompletion(**asked)
        return stream, [piece async for piece in stream]

    if is_async:
        stream, pieces = litellm_calls.run(ask())
    else:
        stream = litellm.completion(**asked)
        pieces = list(stream)
    assert type(stream) is handler.CustomStreamWrapper
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert all(isinstance(piece, litellm.ModelResponseStream) for piece in pieces)
    (said,) = said_of(captured)
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert attributes.FIRST_TOKEN in said


def test_b5_litellm_counts_once_and_an_import_alone_traces_nothing(server: ModelServer) -> None:
    """Importing both, in either order, traces nothing; of one call there is one, over an SDK and without."""
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    server.replies = [litellm_calls.good("openai", stream=False)]
    for imports in ("agentprof, litellm", "litellm, agentprof"):
        program = f"""
            import os
            os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
            import {imports}
            from support import litellm_calls
            before = litellm.completion
            from opentelemetry import trace
            assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
            from agentprof.testing import capture
            with capture() as captured:
                assert not captured.spans
                with agentprof.task("t") as task:
                    litellm.completion(**litellm_calls.arguments("openai", "{server.url}"))
            assert litellm.completion is before
            print(task.summary().calls, len(captured.spans))
        """
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=_environment(),
        )
        assert done.stdout.endswith("1 2\n")


def _environment() -> dict[str, str]:
    tests = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
