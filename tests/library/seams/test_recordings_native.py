"""Spans of recordings of the wire formats of Gemini, Ollama, Cohere and Bedrock through plain HTTP equal the truth.

The truths were computed from the recordings without any SDK. Run with `-s` for tables.
"""

import json
from typing import Any

import httpx2
import pytest
from support.native_truths import expected
from support.recordings import Recordings
from support.truth import differences, print_table

from agentprof import _guard
from agentprof.testing import capture

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
RECORDINGS = {
    "gemini.generate": 412,
    "gemini.embed": 15,
    "gemini.interactions": 4,
    "ollama.chat": 8,
    "ollama.generate": 4,
    "cohere.chat": 61,
    "cohere.embed": 7,
    "bedrock.converse": 177,
    "bedrock.invoke": 99,
}
_NO_BODY = "no body was recorded"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "gemini.generate": {
        "vertex.gemini_generate.dd_trace_py.vertexai_generate_content_boolean.ba43b.0": _NO_BODY,
        "vertex.gemini_generate.dd_trace_py.vertexai_generate_content_categorical.ac5cb.0": _NO_BODY,
    },
    "bedrock.converse": {
        "bedrock.bedrock_converse.pydantic_ai.test_bedrock_model_other_parameters.e685b.0": (
            "the request was cut off as it was recorded"
        ),
    },
}
"""By API: recordings whose span differs from the truth, and why."""


def body_of(recording: dict[str, Any]) -> bytes:
    """The request as it was sent, but for white space."""
    request = recording["request"]
    return (request.get("body_text") or json.dumps(request.get("body_json", {}))).encode()


@pytest.mark.parametrize("api", RECORDINGS)
def test_spans_of_plain_http_equal_the_truth(recordings: Recordings, api: str) -> None:
    """What posts the recorded bytes to the recorded path: tokens, tools, finish reasons and status."""
    failures_before = _guard.counts()
    truths = {name: truth for name, truth in recordings.truths.items() if truth["api"] == api}
    exceptions = EXCEPTIONS.get(api, {})
    with recordings.served() as server, capture() as captured, httpx2.Client(timeout=20) as client:

        def call(name: str) -> None:
            recorded = server.store.by_name[name]
            client.post(server.url(name, "") + recorded["path"], content=body_of(recorded))

        differing = differences(
            truths, captured, call, lambda truth: expected(truth, server.store.by_name[truth["name"]])
        )
    print_table(truths, differing, exceptions)
    assert len(truths) == RECORDINGS[api]
    assert set(differing) == set(exceptions)
    assert _guard.counts() == failures_before
