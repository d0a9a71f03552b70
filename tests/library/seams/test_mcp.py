"""Tools of MCP servers: one run each, joined with what the server does, and the program as without us."""

import asyncio
import importlib.metadata
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from support.agent_loops import MODEL, USER, asking, use
from support.mcp_raw_http import RawServer
from support.mcp_styles import carried, over_http, over_sse, over_stdio
from support.model_server import CHAT, ModelServer, Reply

import agentprof
from agentprof._instrument import instrumented_modules
from agentprof._readable import to_raw
from agentprof.model import RawSpan
from agentprof.rollup import roll_up
from agentprof.testing import Captured, capture
from agentprof.vocabularies import normalise

mcp = pytest.importorskip("mcp", reason="the SDK is not installed")
from mcp.client.stdio import stdio_client  # noqa: E402 (before agentprof is switched on, as programs do)

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

VERSION = tuple(map(int, importlib.metadata.version("mcp").split(".")[:2]))
SELF_TRACING = VERSION >= (2, 0)
STREAMABLE = VERSION >= (1, 8)
SERVER = Path(__file__).parents[2] / "support" / "mcp_server.py"
RAW = SERVER.with_name("mcp_raw.py")
BESIDE = SERVER.with_name("mcp_beside.py")
needs_http = pytest.mark.skipif(not STREAMABLE, reason="this version has no streamable HTTP")


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def written(file: Path) -> list[RawSpan]:
    """The spans a server has written."""
    return [
        RawSpan(
            trace_id=line["trace_id"],
            span_id=line["span_id"],
            parent_id=line["parent_id"],
            name=line["name"],
            start_ns=line["start_ns"],
            end_ns=line["end_ns"],
            kind=line["kind"],
            attributes=line["attributes"],
            scope=line["scope"],
        )
        for line in lines(file)
        if "trace_id" in line and "name" in line
    ]


@contextmanager
def listening(how: str, file: Path) -> Iterator[str]:
    """The address of a server that runs in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(SERVER), how, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def only(captured: Captured, name: str) -> tuple[ReadableSpan, dict[str, Any]]:
    (span,) = captured.named(name)
    return span, dict(span.attributes or {})


# --- one run, joined -----------------------------------------------------------------------------
def test_c3_a_server_over_stdio_joins_the_trace(captured: Captured, tmp_path: Path) -> None:
    """Its steps stand inside the tool run, in the task, and nothing is counted twice."""
    file = tmp_path / "server.jsonl"

    async def work() -> agentprof.Task:
        async with over_stdio(SERVER, "stdio+agentprof", str(file)) as session:
            with agentprof.task("agent") as task:
                result = await session.call_tool("add", {"a": 1, "b": 2})
                assert result.content[0].text == "3"
        return task

    task = asyncio.run(work())
    span, said = only(captured, "execute_tool add")
    assert said["gen_ai.tool.name"] == "add"
    assert said["mcp.method.name"] == "tools/call"
    assert span.context is not None
    inside = next(line for line in lines(file) if line.get("name") == "adding")
    assert inside["trace_id"] == f"{span.context.trace_id:032x}"
    assert inside["attributes"]["agentprof.task.id"] == task.id
    spans = [normalise(raw) for raw in [*map(to_raw, captured.spans), *written(file)]]
    summary = roll_up(task.id, spans)
    assert [(row.path[1:], row.kind, row.runs) for row in summary.nodes] == [
        ([], "task", 1),
        (["add"], "tool", 1),
        (["add", "adding"], "step", 1),
    ]
    assert summary.warnings == []
    assert {name: row.runs for name, row in summary.tools.items()} == {"add": 1}
    assert summary.timeline_ns["tool"] + summary.timeline_ns["step"] == summary.tools["add"].busy_ns
    assert summary.trace_ids == [inside["trace_id"]]


@needs_http
@pytest.mark.parametrize("propagates", [True, False])
def test_c3_a_server_over_http_joins_where_it_may(tmp_path: Path, propagates: bool) -> None:
    """`propagate_to` says which servers get a `traceparent`; none gets the baggage of the task."""
    _joins_where_it_may("http+agentprof", "/mcp", over_http, tmp_path, propagates)


@pytest.mark.parametrize("propagates", [True, False])
def test_a_server_over_sse_joins_where_it_may(tmp_path: Path, propagates: bool) -> None:
    """What is sent by POST is answered on another stream; the rest is the same."""
    pytest.importorskip("mcp.client.sse")
    _joins_where_it_may("sse+agentprof", "/sse", over_sse, tmp_path, propagates)


def _joins_where_it_may(how: str, path: str, over: Any, tmp_path: Path, propagates: bool) -> None:
    file = tmp_path / "server.jsonl"
    file.touch()

    async def work(url: str) -> None:
        async with over(url + path) as session:
            with agentprof.task("agent"):
                result = await session.call_tool("add", {"a": 1, "b": 2})
                assert result.content[0].text == "3"

    with listening(how, file) as url, capture(propagate_to=["127.0.0.1"] if propagates else []) as captured:
        asyncio.run(work(url))
    span, _ = only(captured, "execute_tool add")
    assert span.context is not None
    inside = next(line for line in lines(file) if line.get("name") == "adding")
    called = next(line for line in lines(file) if "called" in line)
    assert (inside["trace_id"] == f"{span.context.trace_id:032x}") is propagates
    assert called["baggage"] == []


@pytest.mark.skipif(not SELF_TRACING, reason="the server of this version is set up otherwise")
def test_a_tool_whose_stream_breaks_off_is_one_run(captured: Captured, tmp_path: Path) -> None:
    """The client asks for the rest by the last event's id: one run, from the call to its result."""

    async def work(url: str) -> agentprof.Task:
        async with over_http(url + "/mcp") as session:
            with agentprof.task("agent") as task:
                result = await session.call_tool("interrupted", {})
                assert result.content[0].text == "done"
        return task

    with listening("resumed", tmp_path / "f") as url:
        summary = asyncio.run(work(url)).summary()
    span, said = only(captured, "execute_tool interrupted")
    assert "error.type" not in said
    assert (span.end_time or 0) - (span.start_time or 0) >= 50_000_000
    assert {name: (row.runs, row.errors) for name, row in summary.tools.items()} == {"interrupted": (1, 0)}
    assert summary.warnings == []


def test_calls_at_once(captured: Captured, tmp_path: Path) -> None:
    """Each is a run of its own, and their time counts once on the timeline."""

    async def work() -> agentprof.Task:
        async with over_stdio(SERVER, "stdio", str(tmp_path / "f")) as session:
            with agentprof.task("agent") as task:
                await asyncio.gather(*(session.call_tool("wait", {"seconds": 0.05}) for _ in range(3)))
        return task

    summary = asyncio.run(work()).summary()
    assert summary.tools["wait"].runs == 3
    assert summary.busy_ns["tool"] >= 150_000_000
    assert summary.timeline_ns["tool"] < summary.busy_ns["tool"]
    assert summary.repeats["tool"] == 2  # with the same arguments


def test_a_marked_function_that_calls_a_tool_is_one_run(captured: Captured, tmp_path: Path) -> None:
    """Under the name it is marked with."""

    async def work() -> agentprof.Task:
        async with over_stdio(RAW, str(tmp_path / "f")) as session:

            @agentprof.tool("weather")
            async def weather() -> Any:
                return await session.call_tool("add", {})

            with agentprof.task("agent") as task:
                await weather()
        return task

    summary = asyncio.run(work()).summary()
    assert {name: row.runs for name, row in summary.tools.items()} == {"weather": 1}
    assert summary.warnings == []


def test_an_agents_loop_with_tools_of_a_server(captured: Captured, tmp_path: Path) -> None:
    """They are marked: nothing is inferred from the calls around them."""
    openai = pytest.importorskip("openai", reason="the SDK is not installed")

    async def work(url: str) -> agentprof.Task:
        async with (
            over_stdio(RAW, str(tmp_path / "f")) as session,
            openai.AsyncOpenAI(base_url=url, api_key="x") as to,
        ):
            with agentprof.task("agent") as task:
                messages: list[Any] = [USER]
                answer = await to.chat.completions.create(model=MODEL, messages=messages)
                call = answer.choices[0].message.tool_calls[0]
                result = await session.call_tool(call.function.name, {})
                messages.append({"role": "assistant", "tool_calls": [use(call.id, call.function.name)]})
                text = result.content[0].text
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
                await to.chat.completions.create(model=MODEL, messages=messages)
        return task

    with ModelServer() as server:
        server.replies = [asking(("call_1", "add")), Reply.json(CHAT)]
        summary = asyncio.run(work(server.url)).summary()
    assert summary.tools["add"].runs == 1
    assert summary.evidence_ns["tool"] == {"observed": summary.tools["add"].busy_ns}


@pytest.mark.skipif(not SELF_TRACING, reason="the SDK traces itself from 2 on")
@pytest.mark.parametrize("how", ["with", "without"])
def test_the_sdks_own_spans_are_the_same_run(tmp_path: Path, how: str) -> None:
    """They stay; the outermost is the run, under the tool's name also where only the SDK tells of it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(BESIDE), str(tmp_path / "f"), how],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    spans = {span["name"]: span for span in found["spans"]}
    assert spans["MCP send tools/call add"]["scope"] == "mcp-python-sdk"
    assert found["failures"] == {}
    sent = next(line for line in lines(tmp_path / "f") if line["method"] == "tools/call")
    assert sent["params"]["_meta"]["traceparent"].split("-")[2] == spans["MCP send tools/call add"]["id"]
    if how == "with":
        assert spans["MCP send tools/call add"]["parent"] == spans["execute_tool add"]["id"]
        assert {name: row["runs"] for name, row in found["summary"]["tools"].items()} == {"add": 1}
        assert found["summary"]["warnings"] == []


# --- errors --------------------------------------------------------------------------------------
def test_a_tool_that_fails(captured: Captured, tmp_path: Path) -> None:
    """The program gets the result as it is; the run failed; what the server said is not kept."""

    async def work() -> agentprof.Task:
        async with over_stdio(SERVER, "stdio", str(tmp_path / "f")) as session:
            with agentprof.task("agent") as task:
                result = await session.call_tool("fail", {})
                assert getattr(result, "is_error", None) or result.isError
        return task

    summary = asyncio.run(work()).summary()
    assert (summary.tools["fail"].runs, summary.tools["fail"].errors) == (1, 1)
    span, said = only(captured, "execute_tool fail")
    assert said["error.type"] == "tool_error"
    assert "secret" not in span.to_json()


def test_refusals_timeouts_and_cancellation(captured: Captured, tmp_path: Path) -> None:
    """Each leaves as it would without us, and ends the run with what happened."""
    timeout: Any = 0.05 if SELF_TRACING else timedelta(seconds=0.05)

    async def work() -> None:
        async with over_stdio(RAW, str(tmp_path / "f")) as session:
            with pytest.raises(Exception, match="no") as refused:
                await session.call_tool("refuse", {})
            assert refused.type.__name__ in ("McpError", "MCPError")
            if "read_timeout_seconds" in inspect.signature(session.call_tool).parameters:
                with pytest.raises(Exception, match=r"(?i)timed out") as late:
                    await session.call_tool("hang", {}, read_timeout_seconds=timeout)
                assert late.type is refused.type
            hanging = asyncio.create_task(session.call_tool("hang", {"n": 2}))
            await asyncio.sleep(0.05)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging

    asyncio.run(work())
    kinds = [dict(span.attributes or {})["error.type"] for span in captured.named("execute_tool")]
    assert kinds[-1] == "CancelledError"
    assert set(kinds[:-1]) <= {"McpError", "MCPError"}
    assert len(kinds) >= 2


# --- as without us -------------------------------------------------------------------------------
async def a_session(session: Any) -> list[str]:
    """What a program does, and what it gets."""
    found = [repr(await session.list_tools())]
    with agentprof.task("agent"):
        found.append(repr(await session.list_tools()))
        arguments = {"a": 1, "text": "secret"}
        found.append(repr(await session.call_tool("add", arguments)))
        assert arguments == {"a": 1, "text": "secret"}
        found.append(repr(await session.call_tool(name="fail", arguments=None)))
        try:
            await session.call_tool("refuse")
        except Exception as error:  # noqa: BLE001 (its kind is what is compared)
            found.append(f"{type(error)}: {error}")
    return found


def test_what_a_server_over_stdio_gets(tmp_path: Path) -> None:
    """The same messages; only a call of a tool says beside them whose it is."""

    def run(name: str) -> tuple[list[str], list[Any]]:
        async def work() -> list[str]:
            async with over_stdio(RAW, str(tmp_path / name)) as session:
                return await a_session(session)

        return asyncio.run(work()), lines(tmp_path / name)

    without, plain = run("without")
    with capture() as captured:
        with_us, joined = run("with")
    assert with_us == without
    assert carried(joined) == [{"traceparent", "baggage"}] * 3
    assert carried(plain) == [set()] * 3
    assert joined == plain
    assert "secret" not in "".join(span.to_json() for span in captured.spans)


@needs_http
def test_what_a_server_elsewhere_gets() -> None:
    """Byte for byte what it gets without us."""

    def run() -> tuple[list[str], list[Any], list[Any]]:
        with RawServer() as server:

            async def work() -> list[str]:
                async with over_http(server.url) as session:
                    return await a_session(session)

            found = asyncio.run(work())
        return found, server.messages, [headers | {"host": ""} for headers in server.headers]

    without = run()
    with capture(propagate_to=[]) as captured:
        assert run() == without
    assert len(captured.named("execute_tool")) == 3


def test_everything_is_as_before_afterwards() -> None:
    """Functions are the originals, by identity, and nothing else made of them is left."""
    from mcp.client import stdio

    before = mcp.ClientSession.call_tool, stdio.stdio_client.__closure__[0].cell_contents
    assert inspect.iscoroutinefunction(before[0])
    with capture():
        assert mcp.ClientSession.call_tool is not before[0]
        assert inspect.iscoroutinefunction(mcp.ClientSession.call_tool)
        assert inspect.signature(mcp.ClientSession.call_tool) == inspect.signature(before[0])
        assert stdio.stdio_client is stdio_client
    assert (mcp.ClientSession.call_tool, stdio.stdio_client.__closure__[0].cell_contents) == before


def test_what_is_patched_is_named() -> None:
    """Transports too, whose functions are in cells; `agentprof run` and `doctor` say it."""
    assert "mcp.client.stdio" not in instrumented_modules()
    with capture():
        assert "mcp.client.stdio" in instrumented_modules()
    assert "mcp.client.stdio" not in instrumented_modules()


def test_a_transport_that_somebody_else_patched_over() -> None:
    """It stays as they made it when agentprof is switched off, and on again."""
    cell = stdio_client.__closure__[0]
    original = cell.cell_contents
    try:
        with capture():
            ours = cell.cell_contents

            def theirs(*args: Any, **kwargs: Any) -> Any:
                return ours(*args, **kwargs)

            cell.cell_contents = theirs
        with capture():
            assert cell.cell_contents is theirs
    finally:
        cell.cell_contents = original


def test_switching_on_imports_nothing_of_it() -> None:
    """Also where it is installed."""
    code = "import agentprof, sys; agentprof.instrument(); print([m for m in sys.modules if m.startswith('mcp')])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "[]"
