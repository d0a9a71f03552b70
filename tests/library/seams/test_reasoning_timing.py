"""First token, first content and visible thinking of recorded reasoning streams, against the server's clock."""

import json
from queue import SimpleQueue
from statistics import median
from typing import Any

import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from support.recordings import Recordings, send

from agentprof import attributes
from agentprof.testing import Captured, capture

FIRST_MS, DELAY_MS = 30, 2
LIMIT_S = 0.005
LONGEST = 400
"""Events of a stream; the few longer ones would take seconds each."""
RUNS = 40
"""A busy machine delays one of the two clocks now and then: a stream counts by its best run."""


def _is_reasoning(event: dict[str, Any]) -> bool:
    kind = event.get("type") or ""
    if kind.startswith("response.reasoning") and kind.endswith(".delta"):
        return bool(event.get("delta"))
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        content = delta.get("content")
        details = delta.get("reasoning_details") or ()
        if delta.get("reasoning_content") or delta.get("reasoning"):
            return True
        if isinstance(content, list) and any(part["type"] == "thinking" for part in content):
            return True
        if any(part.get("text") or part.get("summary") for part in details):
            return True
    return False


def _is_content(event: dict[str, Any]) -> bool:
    kind = event.get("type") or ""
    if kind in ("response.output_text.delta", "response.function_call_arguments.delta"):
        return bool(event.get("delta"))
    if kind == "response.output_item.added":
        return bool(event["item"]["type"] == "function_call")
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        content = delta.get("content")
        if delta.get("tool_calls") or (isinstance(content, str) and content):
            return True
        if isinstance(content, list) and any(part["type"] == "text" for part in content):
            return True
    return False


def _events(piece: bytes) -> list[dict[str, Any]]:
    lines = [line[5:].strip() for line in piece.splitlines() if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def _first_pieces(pieces: list[bytes]) -> tuple[int, int | None]:
    """Positions of the pieces with the first token of any channel and with the first content."""
    token = content = None
    for position, piece in enumerate(pieces):
        for event in _events(piece):
            if token is None and (_is_reasoning(event) or _is_content(event)):
                token = position
            if content is None and _is_content(event):
                content = position
    assert token is not None
    return token, content


def _errors_s(span: ReadableSpan, served: dict[str, Any], token: int, content: int | None) -> list[float]:
    """How far first token, first content and thinking are from what the server did, in seconds."""
    said: Any = span.attributes
    assert span.start_time is not None
    start_s = span.start_time / 1e9 - served["t_request"]
    sent = served["t_events"]
    errors = [abs(start_s + said[attributes.FIRST_TOKEN] - sent[token])]
    if content is None:
        assert attributes.FIRST_CONTENT not in said
        return errors
    thinking = said[attributes.FIRST_CONTENT] - said[attributes.FIRST_TOKEN]
    errors.append(abs(start_s + said[attributes.FIRST_CONTENT] - sent[content]))
    errors.append(abs(thinking - (sent[content] - sent[token])))
    return errors


def _one_run(
    server: Any, served: SimpleQueue[Any], name: str, captured: Captured, token: int, content: int | None
) -> float:
    captured.spans.clear()
    client = openai.OpenAI(base_url=server.url(name, "/v1"), api_key="none", max_retries=0, timeout=20)
    try:
        send(client, server.store.by_name[name])
    except openai.APIError:
        assert captured.spans[0].attributes is not None
        assert captured.spans[0].attributes[attributes.STREAM_END] == "error"
    client.close()
    # The server notes what it served after the last byte has left: it may still be about to.
    row = served.get(timeout=20)
    assert row["recording"] == name
    return max(_errors_s(captured.spans[0], row, token, content))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_thinking_is_measured_where_it_happens(recordings: Recordings) -> None:
    """First token, first content and the thinking between them are within 5 ms of the server's stamps."""
    streams = [
        name
        for name, truth in recordings.truths.items()
        if truth["api"] in ("openai.chat", "openai.responses")
        and truth["streaming"]
        and truth["n_reasoning_chunks"]
        and truth["n_events"] <= LONGEST
    ]
    worst: dict[str, float] = {}
    with recordings.served(first_ms=FIRST_MS, delay_ms=DELAY_MS) as server, capture() as captured:
        served: SimpleQueue[Any] = SimpleQueue()
        server.srv.emit = served.put
        for name in streams:
            response = server.store.by_name[name]["response"]
            pieces = recordings.replay.pieces(response["body"].encode(), response["headers"]["content-type"])
            token, content = _first_pieces(pieces)
            for _ in range(RUNS):
                error = _one_run(server, served, name, captured, token, content)
                worst[name] = min(error, worst.get(name, error))
                if worst[name] < LIMIT_S:
                    break
    ordered = sorted(worst.values())
    print(f"\n{len(worst)} streams: median {median(ordered) * 1e3:.2f} ms, worst {ordered[-1] * 1e3:.2f} ms")
    assert len(worst) >= 30
    assert {name: error for name, error in worst.items() if error >= LIMIT_S} == {}
