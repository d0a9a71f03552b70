"""The same recordings through the SDKs of Google, Ollama, Cohere and Mistral, which send through plain HTTP clients.

Run with `-s` for tables.
"""

import gc
from collections.abc import Callable
from typing import Any

import pytest
from support import native_truths
from support.native_sdks import MODULES, send
from support.recordings import Recordings
from support.truth import differences, expected, print_table

from agentprof import _guard
from agentprof.testing import capture

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDINGS = {
    "gemini.generate": 412,
    "gemini.embed": 15,
    "gemini.interactions": 4,
    "ollama.chat": 8,
    "ollama.generate": 4,
    "cohere.chat": 61,
    "cohere.embed": 7,
    "openai.chat": 85,
    "openai.embeddings": 6,
}
"""The last two: those of Mistral."""
EXCEPTIONS: dict[str, dict[str, str]] = {}


def chosen(truth: dict[str, Any], api: str) -> bool:
    """Whether a recording is sent here: of OpenAI's formats those of Mistral."""
    return truth["api"] == api and (not api.startswith("openai") or truth["provider"] == "mistral")


@pytest.mark.parametrize("api", RECORDINGS)
def test_spans_through_sdks_equal_the_truth(recordings: Recordings, api: str) -> None:
    """Tokens, tools, finish reasons and status, one call a request."""
    truths = {name: truth for name, truth in recordings.truths.items() if chosen(truth, api)}
    module = MODULES[next(iter(truths.values()))["provider"]]
    pytest.importorskip(module, reason="the SDK is not installed")
    failures_before = _guard.counts()
    exceptions = EXCEPTIONS.get(api, {})
    should: Callable[[dict[str, Any]], dict[str, Any]] = expected
    with recordings.served() as server, capture() as captured:
        if not api.startswith("openai"):

            def should(truth: dict[str, Any]) -> dict[str, Any]:
                return native_truths.expected(truth, server.store.by_name[truth["name"]])

        def call(name: str) -> None:
            try:
                send(truths[name]["provider"], server.url(name, ""), server.store.by_name[name])
            finally:
                if truths[name]["streaming"] and not captured.spans:
                    gc.collect()

        differing = differences(truths, captured, call, should)
    gc.collect()  # of clients that nobody has closed
    print_table(truths, differing, exceptions)
    assert len(truths) == RECORDINGS[api]
    assert set(differing) == set(exceptions)
    assert _guard.counts() == failures_before
