"""With content off, nothing a program says or hears is anywhere: not in spans, logs, spool, store or summary."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import pytest
import requests
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, chunk
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import _guard
from agentprof.dialects import openai_chat
from agentprof_collector import cli

MODEL = "gpt-4o-mini"
MARK = "canary"
NOBODY = "http://127.0.0.1:9/v1/traces"


def canary(place: str) -> str:
    """Something that must not be found again, and says where it came from."""
    return f"{MARK}-{place}"


def _body(place: str, **more: Any) -> dict[str, Any]:
    tool = {
        "type": "function",
        "function": {
            "name": "look",
            "description": canary(f"schema-{place}"),
            "parameters": {"type": "object"},
        },
    }
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": canary(f"argument-{place}")},
    }
    messages = [
        {"role": "system", "content": canary(f"system-{place}")},
        {"role": "user", "content": [{"type": "text", "text": canary(f"prompt-{place}")}]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": canary(f"tool-result-{place}")},
    ]
    said = {"user": canary(f"user-{place}"), "metadata": {canary(f"key-{place}"): canary(f"value-{place}")}}
    return {"model": MODEL, "messages": messages, "tools": [tool], **said, **more}


def _whole() -> Reply:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": canary("answered-argument")},
    }
    message = {"role": "assistant", "content": canary("completion"), "tool_calls": [call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    return Reply.json(
        CHAT | {"choices": choices, canary("field"): canary("value")}, x_secret=canary("answer-header")
    )


def _stream(*end: bytes, framing: str = "chunked") -> Reply:
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": canary("streamed-argument")}}
    said = [chunk({"content": canary("streamed")}), chunk({"reasoning_content": canary("thought")})]
    return Reply.stream([STREAM[0], *said, chunk({"tool_calls": [call]}), *end], framing)


def _refusal(status: int) -> Reply:
    error = {"message": canary("refusal"), "param": canary("param"), "type": "bad_request", "code": "no"}
    return Reply.json({"error": error}, status)


def _error_event() -> bytes:
    error = {"message": canary("event"), "type": "server_error"}
    return b"data: " + json.dumps({"error": error}).encode() + b"\n\n"


REPLIES: list[tuple[Reply, bool]] = [
    (_whole(), False),
    (_refusal(400), False),
    (_refusal(500), False),
    (Reply(canary("no-json").encode(), 200, {"content-type": "text/plain"}), False),
    (Reply(f'{{"id": "{canary("cut-json")}'.encode(), 200, {"content-type": "application/json"}), False),
    (_stream(*STREAM[3:]), True),
    (_stream(_error_event()), True),
    (_stream(framing="cut"), True),
    (_stream(framing="close"), True),
    (_stream(f"data: {canary('no-event')}\n\n".encode(), DONE), True),
]
"""Every kind of answer, and whether a stream was asked for."""


@agentprof.tool
def look(at: str) -> str:
    """Fails with what it was given."""
    raise ValueError(at, canary("exception"))


def _ask_the_sdk(server: ModelServer) -> None:
    secrets = {"X-Secret": canary("header"), "Authorization": f"Bearer {canary('authorization')}"}
    to = openai.OpenAI(
        api_key=canary("api-key"), base_url=server.url, organization=canary("organization"), max_retries=0
    )
    with to:
        for reply, streamed in REPLIES:
            server.replies = [reply]
            try:
                answer = to.chat.completions.create(
                    **_body("sdk", stream=streamed),
                    extra_headers=secrets,
                    extra_query={"q": canary("query")},
                    extra_body={"extra": canary("extra")},
                )
                if streamed:
                    list(answer)
            except Exception as error:  # noqa: BLE001
                _say(error)
        server.replies = [
            Reply.json(json.loads(json.dumps(WHOLE["responses"]).replace("Hello.", canary("output"))))
        ]
        to.responses.create(model=MODEL, input=canary("input"), instructions=canary("instructions"))
        server.replies = [
            Reply.stream(
                [event.replace(b"Hello.", canary("output").encode()) for event in EVENTS["responses"]]
            )
        ]
        list(to.responses.create(model=MODEL, input=canary("input"), stream=True))
        server.replies = [Reply.json(WHOLE["embeddings"])]
        to.embeddings.create(model=MODEL, input=[canary("embedded")])


def _say(error: Exception) -> None:
    """What the program does with its errors is its own business."""
    logging.getLogger("program").debug("%s", type(error))


def _ask_without(server: ModelServer) -> None:
    """With the query and a password in the URL, and headers."""
    host = server.url.removeprefix("http://")
    url = f"http://{canary('user')}:{canary('password')}@{host}/chat/completions?key={canary('query')}#{MARK}"
    how: dict[str, Any] = {"headers": {"x-api-key": canary("header")}, "cookies": {"c": canary("cookie")}}

    async def aio() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=_body("aiohttp", stream=streamed), **how) as response,
        ):
            await response.read()

    for reply, streamed in REPLIES:
        server.replies = [reply]
        for library in ("httpx", "httpx2", "requests", "aiohttp"):
            try:
                if library == "aiohttp":
                    asyncio.run(aio())
                elif library == "requests":
                    requests.post(url, json=_body(library, stream=streamed), timeout=5, **how)
                else:
                    with {"httpx": httpx, "httpx2": httpx2}[library].Client(**how) as http:
                        http.post(url, json=_body(library, stream=streamed))
            except Exception as error:  # noqa: BLE001
                _say(error)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model endpoint that answers what the test tells it to."""
    with ModelServer() as running:
        yield running


def _texts(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.name: file.read_bytes().decode("latin-1") for file in files}


def _rows(database: Path) -> str:
    """Everything in a database, decompressed."""
    import duckdb

    with duckdb.connect(str(database), read_only=True) as connection:
        tables = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        assert tables
        values = [value for name in tables for row in connection.table(name).fetchall() for value in row]
    return "\n".join(repr(zlib.decompress(v) if isinstance(v, bytes) else v) for v in values)


def test_nothing_private_is_anywhere(
    server: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prompts, answers, tool arguments, headers, keys, URLs and messages of errors, through every library."""
    spool, database = tmp_path / "spool", tmp_path / "store.duckdb"
    monkeypatch.setenv("AGENTPROF_SPOOL", str(spool))
    monkeypatch.setenv("AGENTPROF_DB", str(database))
    monkeypatch.setattr(_guard, "_counts", {})
    for logger in ("agentprof", "opentelemetry"):
        caplog.set_level(logging.DEBUG, logger)
    seen = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(seen))
    agentprof.instrument(tracer_provider=provider, endpoint=NOBODY)
    try:
        with agentprof.task("private") as task, agentprof.step("ask"):
            _ask_the_sdk(server)
            _ask_without(server)
            with pytest.raises(ValueError, match=MARK):
                look(canary("argument"))
        with pytest.raises(RuntimeError), agentprof.task("failed"):
            raise RuntimeError(canary("exception"))
        summary = task.summary()
    finally:
        agentprof.uninstrument()

    found = {f"span {number}": span.to_json() for number, span in enumerate(seen.get_finished_spans())}
    calls = [span for span in seen.get_finished_spans() if span.name.startswith(("chat", "embeddings"))]
    assert len(calls) >= 4 * len(REPLIES) + 3
    found["logs"] = "\n".join(
        caplog.handler.format(record)
        for record in caplog.records
        if record.name.startswith(("agentprof", "opentelemetry"))
    )
    found["summary"] = json.dumps(summary.to_dict())
    spooled = _texts(spool)
    assert spooled
    found |= spooled

    for number, file in enumerate(sorted(spool.rglob("*.pb"))):
        (tmp_path / f"{number}.pb").write_bytes(file.read_bytes())
        assert cli.main(["ingest", str(tmp_path / f"{number}.pb")]) == 0
    assert cli.main(["report", "--json"]) == 0
    assert cli.main(["report", "--calls", "--json"]) == 0
    found["printed"] = capsys.readouterr().out
    assert '"private"' in found["printed"]
    found["rows"] = _rows(database)
    assert MODEL in found["rows"]
    found |= {name: text for name, text in _texts(tmp_path).items() if not name.endswith(".pb")}

    assert {name for name, text in found.items() if MARK in text} == set()
    assert set(_guard.counts()) == {"no collector"}


def test_a_failure_of_ours_does_not_quote(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error inside agentprof may hold what it was reading: its place and class are logged, not its message."""

    def broken(body: bytes, *more: object) -> None:
        raise ValueError(body) from KeyError(body)

    monkeypatch.setattr(_guard, "_counts", {})
    monkeypatch.setattr(openai_chat, "_read_body", broken)
    server.replies = [_whole()]
    from agentprof.testing import capture

    with capture(), openai.OpenAI(api_key="x", base_url=server.url) as to:
        to.chat.completions.create(model=MODEL, messages=[])
    (record,) = [record for record in caplog.records if record.name == "agentprof"]
    text = caplog.handler.format(record)
    assert MARK not in text
    assert "ValueError" in text
    assert os.path.basename(__file__) in text
