"""Spans of every recording of Anthropic messages, through the SDK and through plain HTTP, equal the truth.

The truths were computed from the recordings without any SDK. Run with `-s` for a table.
"""

import json

import httpx2
import pytest
from support.recordings import Recordings
from support.truth import Truths, differences, print_table

from agentprof import _guard
from agentprof.testing import capture

anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::UserWarning",
    "ignore:unclosed file:ResourceWarning",
)
"""Of the SDK about old models, and of the replay server about the files it reads."""

RECORDINGS = 425
_COMPACTED = "what the compaction took is billed beside the answer: the span counts it, the truth does not"
EXCEPTIONS = {
    "anthropic.anthropic_messages.pydantic_ai.test_anthropic_compaction_usage_with_cache.e8a53.0": _COMPACTED,
    "anthropic.anthropic_messages.ai.anthropic_compaction_1_chunks.d5b77.0": _COMPACTED,
}
FLAGS = (
    "content_empty",
    "input_tokens_changed_in_delta",
    "message_start_repeated",
    "redacted_thinking",
    "usage_extra_keys:iterations",
    "usage_extra_keys:iterations,output_tokens_details",
    "usage_extra_keys:output_tokens_details",
    "usage_extra_keys:pydantic_ai_gateway",
    "usage_iterations",
)
"""What is odd about some of them, as the list of odd recordings names it."""


Differing = dict[str, str]


@pytest.fixture(scope="module")
def truths(recordings: Recordings) -> Truths:
    """Of all recordings of messages."""
    return {name: truth for name, truth in recordings.truths.items() if truth["api"] == "anthropic.messages"}


@pytest.fixture(scope="module")
def differing(recordings: Recordings, truths: Truths) -> Differing:
    """What differs where the SDK sends."""
    from support.anthropic_recordings import send

    failures = _guard.counts()
    client = anthropic.Anthropic(base_url="http://127.0.0.1:1", api_key="none", max_retries=0, timeout=20)
    with recordings.served() as server, capture() as captured:

        def call(name: str) -> None:
            send(client.copy(base_url=server.url(name, "")), server.store.by_name[name])

        found = differences(truths, captured, call)
    assert _guard.counts() == failures
    return found


def test_spans_equal_the_truth(truths: Truths, differing: Differing) -> None:
    """Tokens by class, tools, server tools, stop reasons, tier and status of all are those of the bytes."""
    print_table(truths, differing, EXCEPTIONS)
    assert len(truths) == RECORDINGS
    assert set(differing) == set(EXCEPTIONS)
    assert len(EXCEPTIONS) <= RECORDINGS / 200


@pytest.mark.parametrize("flag", FLAGS)
def test_odd_recordings(truths: Truths, differing: Differing, flag: str) -> None:
    """Those with one thing that is odd about them are read like the others."""
    odd = {name for name, truth in truths.items() if flag in truth["nasty"]}
    assert odd
    assert odd & set(differing) == odd & set(EXCEPTIONS)


def test_spans_of_plain_http_equal_the_truth(recordings: Recordings, truths: Truths) -> None:
    """The same without an SDK: what posts the recorded bytes to the recorded path is measured as exactly."""
    failures = _guard.counts()
    with recordings.served() as server, capture() as captured, httpx2.Client(timeout=20) as client:

        def call(name: str) -> None:
            recorded = server.store.by_name[name]
            request = recorded["request"]
            text = request.get("body_text") or json.dumps(request.get("body_json", {}))
            query = f"?{recorded['query']}" if recorded.get("query") else ""
            client.post(server.url(name, "") + recorded["path"] + query, content=text.encode())

        found = differences(truths, captured, call)
    print_table(truths, found, EXCEPTIONS)
    assert set(found) == set(EXCEPTIONS)
    assert _guard.counts() == failures
