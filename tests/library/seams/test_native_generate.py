"""`/generate` of SGLang and TGI over plain HTTP: usage, why it ended, and the engine's own times."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from support.model_server import ModelServer, Reply
from support.timed_calls import Pacing, with_queue

from agentprof._readable import to_raw
from agentprof.dialects import asked_in, dialect_of
from agentprof.model import Span, Usage
from agentprof.rollup.calls import call_rows
from agentprof.testing import Captured
from agentprof.vocabularies import normalise

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MS = 1_000_000
META: dict[str, Any] = {
    "id": "rid-1",
    "finish_reason": {"type": "length", "length": 20},
    "prompt_tokens": 300,
    "completion_tokens": 20,
    "cached_tokens": 64,
    "queue_time": 0.05,
    "forward_entry_time": 1000.06,
    "prefill_finished_time": 1000.11,
    "first_token_latency": 0.11,
    "e2e_latency": 0.21,
}
TGI_HEADERS = {
    "x-compute-time": "0.21",
    "x-total-time": "210",
    "x-queue-time": "50",
    "x-inference-time": "155",
}
DETAILS = {"finish_reason": "length", "generated_tokens": 20, "input_length": 300}


def post(server: ModelServer, path: str, asked: dict[str, Any], pacing: Pacing | None = None) -> None:
    pacing = pacing or Pacing()
    with (
        httpx2.Client() as client,
        client.stream("POST", server.url.removesuffix("/v1") + path, json=asked) as answer,
    ):
        pacing.begun()
        for piece in answer.iter_raw():
            pacing.got(piece.count(b"data: "))


def only(captured: Captured) -> Span:
    (span,) = [normalise(to_raw(span)) for span in captured.spans]
    return span


def phases(captured: Captured) -> dict[str, int]:
    (row,) = call_rows("t", [only(captured)])
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row.phases_ns


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def test_sglang(server: ModelServer, captured: Captured) -> None:
    """A whole answer with its metrics on."""
    reply = Reply.json({"text": "one two", "meta_info": META})
    reply.wait_s = 0.25
    server.replies = [reply]
    post(server, "/generate", {"text": "Count.", "sampling_params": {"max_new_tokens": 20}})
    found = only(captured).call
    assert found is not None
    assert (found.engine, found.operation, found.response_id) == ("sglang", "text_completion", "rid-1")
    assert found.usage == Usage(input=300, output=20, cache_read=64)
    assert found.finish_reasons == ("length",)
    divided = phases(captured)
    assert {name: divided[name] // MS for name in ("queue", "prefill", "generation")} == {
        "queue": 50,
        "prefill": 50,
        "generation": 100,
    }


def test_sglang_streamed(server: ModelServer, captured: Captured) -> None:
    """Events repeat the text; the last says when what was."""
    begun = {"id": "rid-1", "finish_reason": None, "prompt_tokens": 300, "completion_tokens": 1}
    pieces: list[bytes | float] = [
        0.11,
        event({"text": "one", "meta_info": begun}),
        event({"text": "one", "meta_info": begun}),
        0.1,
        event({"text": "one two", "meta_info": META}),
        b"data: [DONE]\n\n",
    ]
    pacing = Pacing()
    server.replies = [Reply.stream(pacing.pieces(pieces))]
    asked = {"text": "Count.", "sampling_params": {}, "stream": True}
    post(server, "/generate", asked, pacing)
    found = only(captured).call
    assert found is not None
    assert (found.stream, found.stream_end, found.finish_reasons) == (True, "complete", ("length",))
    assert found.first_token_ns is not None
    assert found.first_token_ns >= 110 * MS
    assert phases(captured)["queue"] == 50 * MS


def test_tgi(server: ModelServer, captured: Captured) -> None:
    """A whole answer, with its times in headers."""
    reply = Reply.json({"generated_text": "one two", "details": DETAILS})
    reply.headers |= TGI_HEADERS
    reply.wait_s = 0.25
    server.replies = [reply]
    post(server, "/generate", {"inputs": "Count.", "parameters": {"details": True}})
    found = only(captured).call
    assert found is not None
    assert found.engine == "tgi"
    assert found.usage == Usage(input=300, output=20)
    divided = phases(captured)
    assert (divided["queue"], divided["model"]) == (50 * MS, 160 * MS)


def test_tgi_streamed(server: ModelServer, captured: Captured) -> None:
    """A token an event; the last has the whole text."""
    tokens = [{"token": {"text": text}, "generated_text": None, "details": None} for text in ("one", " two")]
    last = {"token": {"text": "."}, "generated_text": "one two.", "details": DETAILS}
    pacing = Pacing()
    pieces = [0.1, event(tokens[0]), 0.1, event(tokens[1]), event(last)]
    server.replies = [Reply.stream(pacing.pieces(pieces))]
    post(server, "/generate_stream", {"inputs": "Count."}, pacing)
    found = only(captured).call
    assert found is not None
    assert (found.stream, found.stream_end, found.engine) == (True, "complete", "tgi")
    assert found.usage == Usage(input=300, output=20)
    divided = phases(captured)
    assert divided["wait"] >= 95 * MS
    assert divided["generation"] >= 95 * MS


LAST = {
    "content": "",
    "stop": True,
    "stop_type": "limit",
    "model": "smollm2",
    "tokens_predicted": 20,
    "tokens_evaluated": 300,
    "timings": {"cache_n": 100, "prompt_n": 200, "prompt_ms": 50.0, "predicted_n": 20, "predicted_ms": 100.0},
}


def test_llama_cpp(server: ModelServer, captured: Captured) -> None:
    """A whole answer: prefill and generation are the server's, what precedes them waited."""
    reply = Reply.json(LAST | {"content": "one two"})
    reply.wait_s = 0.25
    server.replies = [reply]
    post(server, "/completion", {"prompt": "Count.", "n_predict": 20})
    found = only(captured).call
    assert found is not None
    assert (found.engine, found.model, found.finish_reasons) == ("llama.cpp", "smollm2", ("limit",))
    assert found.usage == Usage(input=300, output=20, cache_read=100)
    divided = phases(captured)
    assert (divided["prefill"], divided["generation"]) == (50 * MS, 100 * MS)
    assert divided["wait"] >= 95 * MS


def test_llama_cpp_streamed(server: ModelServer, captured: Captured) -> None:
    """The headers leave when the slot starts: before them the request queued."""
    pieces = [
        0.05,
        event({"content": "one", "stop": False}),
        0.1,
        event({"content": " two", "stop": False}),
        event(LAST),
    ]

    def complete() -> None:
        pacing = Pacing()
        server.replies = [Reply.stream(pacing.pieces(pieces), wait_s=0.2)]
        post(server, "/completion", {"prompt": "Count.", "stream": True}, pacing)

    divided = with_queue(captured, complete).phases_ns
    found = only(captured).call
    assert found is not None
    assert (found.stream, found.stream_end) == (True, "complete")
    assert divided["queue"] >= 195 * MS
    assert divided["prefill"] == 50 * MS
    assert "wait" not in divided


def test_what_is_no_request() -> None:
    """Others post to such a path too; Ollama's own path is another format."""
    dialect = dialect_of("/generate")
    assert dialect is not None
    assert asked_in(dialect, "/generate", b'{"prompt": "a report", "name": "x"}') is None
    ollama = dialect_of("/api/generate")
    assert ollama is not None
    assert ollama.name == "ollama.generate"
