"""Every recording of the OpenAI wire formats goes through the SDK, and the span is compared with its truth.

The truths were computed from the recordings without any SDK. Run with `-s` for a table.
"""

from collections import Counter, defaultdict
from typing import Any

import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from support.recordings import Recordings, send

from agentprof import _guard, attributes
from agentprof.testing import Captured, capture

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


def _expected(truth: dict[str, Any]) -> dict[str, Any]:
    """What the span must say: tokens normalised, the rest as the provider reports it."""
    raw = truth["usage_raw"] or {}
    given, output, reasoning = truth["input_tokens"], truth["output_tokens"], truth["reasoning_tokens"]
    cached = truth["cached_input_tokens"]
    if cached is None:
        cached = raw.get("num_cached_tokens")  # Mistral's name, which the truth does not look at
    if reasoning and raw.get("total_tokens") == given + output + reasoning:
        output += reasoning
    if cached is not None and cached > given:
        given += cached
    return {
        "input": given,
        "output": output,
        "cache_read": cached,
        "cache_write": truth["cache_write_tokens"],
        "reasoning": reasoning,
        "tool_calls": sorted(name for name in truth["tool_calls"] or () if name),
        "finish_reasons": [reason for reason in truth["finish_reasons"] or () if reason is not None],
        "error": truth["status"] >= 400 or truth["error_where"] is not None,
        "status": [str(truth["status"])] if truth["status"] >= 400 else [],
    }


def _found(span: ReadableSpan) -> dict[str, Any]:
    said = span.attributes or {}
    return {
        "input": said.get(attributes.INPUT_TOKENS),
        "output": said.get(attributes.OUTPUT_TOKENS),
        "cache_read": said.get(attributes.CACHE_READ_TOKENS),
        "cache_write": said.get(attributes.CACHE_WRITE_TOKENS),
        "reasoning": said.get(attributes.REASONING_TOKENS),
        "tool_calls": sorted(str(name) for name in said.get(attributes.TOOL_CALLS, ())),  # type: ignore[union-attr]
        "finish_reasons": list(said.get(attributes.FINISH_REASONS, ())),  # type: ignore[arg-type]
        "error": span.status.status_code is StatusCode.ERROR,
        "status": list(said.get(attributes.ATTEMPT_STATUS, ())),  # type: ignore[arg-type]
    }


def _differences(server: Any, truths: dict[str, Any], captured: Captured) -> dict[str, str]:
    """Recordings whose span differs from the truth, each with what differs."""
    client = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0, timeout=20)
    differing: dict[str, str] = {}
    for name, truth in truths.items():
        recording = server.store.by_name[name]
        captured.spans.clear()
        raised = ""
        try:
            send(client.copy(base_url=server.url(name, "/v1")), recording)
        except Exception as error:  # noqa: BLE001 (the SDK itself fails on some recorded answers)
            raised = type(error).__name__
        if len(captured.spans) != 1:
            differing[name] = f"{len(captured.spans)} spans, raised {raised or 'nothing'}"
            continue
        found, expected = _found(captured.spans[0]), _expected(truth)
        wrong = {key: (found[key], expected[key]) for key in expected if found[key] != expected[key]}
        if wrong:
            differing[name] = f"{wrong} raised {raised or 'nothing'}"
    return differing


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_spans_equal_the_truth(recordings: Recordings) -> None:
    """Tokens, tool calls, finish reasons and status of all recordings are those of the bytes."""
    failures_before = _guard.counts()
    truths = {name: truth for name, truth in recordings.truths.items() if truth["api"] in APIS}
    with recordings.served() as server, capture() as captured:
        differing = _differences(server, truths, captured)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for name, truth in truths.items():
        counts[truth["api"], truth["provider"]]["differ" if name in differing else "equal"] += 1
    print()
    for (api, provider), count in sorted(counts.items()):
        print(f"{api:20} {provider:14} equal {count['equal']:4}  differ {count['differ']:3}")
    for name, what in differing.items():
        print(f"{name}: {what}; {EXCEPTIONS.get(name, 'NOT EXPLAINED')}")
    assert len(truths) == RECORDINGS
    assert set(differing) == set(EXCEPTIONS)
    assert len(EXCEPTIONS) <= RECORDINGS / 100
    assert _guard.counts() == failures_before
