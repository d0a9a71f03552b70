"""Spans of every recording of the OpenAI wire formats, through the SDK and through plain HTTP, equal the truth.

The truths were computed from the recordings without any SDK. Run with `-s` for a table.
"""

import json

import httpx2
import openai
import pytest
from support.recordings import Recordings, send
from support.truth import differences, print_table

from agentprof import _guard
from agentprof.testing import capture

APIS = ("openai.chat", "openai.responses", "openai.embeddings", "openai.completions")
RECORDINGS = 1863

_COMPACT = "the truth leaves out the usage of /responses/compact, which the body has"
EXCEPTIONS = {
    f"openai.openai_responses.pydantic_ai.test_openai_responses_compact_{name}": _COMPACT
    for name in (
        "messages.2607a.2",
        "messages_direct.47d9e.2",
        "with_auto_previous_response_id.81b59.1",
        "with_instructions.88c64.1",
    )
}
"""Through the SDK."""

_NO_BODY = "no body was recorded"
_NO_JSON = "the recorded body is no JSON: a comma too many"
EXCEPTIONS_RAW = EXCEPTIONS | {
    "azure.openai_chat.dd_trace_py.azure_openai_chat_completion_boolean.f37b3.0": _NO_BODY,
    "azure.openai_chat.dd_trace_py.azure_openai_chat_completion_categorical.b2444.0": _NO_BODY,
    "writer.openai_chat.openllmetry.test_writer_async_chat_tool_calls_legacy.878ee.0": _NO_JSON,
}
"""Through a plain HTTP client, which posts to the path as it was recorded."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_spans_equal_the_truth(recordings: Recordings) -> None:
    """Tokens, tool calls, finish reasons and status of all recordings are those of the bytes."""
    failures_before = _guard.counts()
    truths = {name: truth for name, truth in recordings.truths.items() if truth["api"] in APIS}
    client = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0, timeout=20)
    with recordings.served() as server, capture() as captured:

        def call(name: str) -> None:
            send(client.copy(base_url=server.url(name, "/v1")), server.store.by_name[name])

        differing = differences(truths, captured, call)
    print_table(truths, differing, EXCEPTIONS)
    assert len(truths) == RECORDINGS
    assert set(differing) == set(EXCEPTIONS)
    assert len(EXCEPTIONS) <= RECORDINGS / 100
    assert _guard.counts() == failures_before


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_spans_of_plain_http_equal_the_truth(recordings: Recordings) -> None:
    """The same without an SDK: what posts the recorded bytes to the recorded path is measured as exactly."""
    failures_before = _guard.counts()
    truths = {name: truth for name, truth in recordings.truths.items() if truth["api"] in APIS}
    with recordings.served() as server, capture() as captured, httpx2.Client(timeout=20) as client:

        def call(name: str) -> None:
            recorded = server.store.by_name[name]
            request = recorded["request"]
            text = request.get("body_text") or json.dumps(request.get("body_json", {}))
            client.post(server.url(name, "") + recorded["path"], content=text.encode())

        differing = differences(truths, captured, call)
    print_table(truths, differing, EXCEPTIONS_RAW)
    assert len(truths) == RECORDINGS
    assert set(differing) == set(EXCEPTIONS_RAW)
    assert len(EXCEPTIONS_RAW) <= RECORDINGS / 100
    assert _guard.counts() == failures_before
