"""Spans of every recording that SDKs on the base client of openai can send, through them, equal the truth.

Through plain HTTP they are among the recordings of `test_recordings.py`. Run with `-s` for tables.
"""

import gc
import inspect
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from support.recordings import Recordings
from support.truth import differences, print_table

from agentprof import _guard, attributes
from agentprof.testing import capture

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore:unclosed file:ResourceWarning"
)
SDKS = {
    "groq": ("groq", "Groq", ""),
    "cerebras": ("cerebras.cloud.sdk", "Cerebras", ""),
    "perplexity": ("perplexity", "Perplexity", ""),
    "together": ("together", "Together", ""),
    "writer": ("writerai", "Writer", ""),
}
"""By provider: module, client, what follows the address in its base URL."""
RECORDINGS = {"groq": 54, "cerebras": 6, "perplexity": 14, "together": 6, "writer": 8}


def send(client: Any, recording: dict[str, Any]) -> None:
    """One call as it was recorded; what the method does not know goes into the body."""
    body = recording["request"].get("body_json")
    if body is None:  # no JSON, so through the generic method, as the bytes they were
        content = recording["request"]["body_text"].encode()
        client.post(recording["path"], cast_to=object, content=content)
        return
    method = client.chat.chat if hasattr(client.chat, "chat") else client.chat.completions.create
    if recording["api"] != "openai.chat":
        method = (
            client.completions if recording["api"] == "openai.completions" else client.embeddings
        ).create
    known = set(inspect.signature(method).parameters) - {"extra_body", "extra_headers", "timeout"}
    named = {key: value for key, value in body.items() if key in known}
    answer = method(**named, extra_body={key: body[key] for key in body if key not in known})
    if body.get("stream"):
        for _ in answer:
            pass


def phases(span: ReadableSpan) -> dict[str, float]:
    """What the span says the provider reported of its time."""
    said = span.attributes or {}
    return {
        name: float(said[attributes.PHASE + name])  # type: ignore[arg-type]
        for name in ("queue", "prefill", "generation")
        if said.get(attributes.PHASE_SOURCE + name) == "reported"
    }


def expected_phases(truth: dict[str, Any], body: str) -> dict[str, float]:
    """The times in the bytes."""
    usage = truth["usage_raw"] or {}
    if '"time_info"' in body:
        for rest in body.split('"time_info":')[1:]:
            usage = json.JSONDecoder().raw_decode(rest.strip())[0] or usage
    names = {"queue_time": "queue", "prompt_time": "prefill", "completion_time": "generation"}
    return {phase: usage[name] for name, phase in names.items() if name in usage}


@pytest.mark.parametrize("provider", SDKS)
def test_spans_equal_the_truth(recordings: Recordings, provider: str) -> None:
    """Tokens, tools, finish reasons and status, and the times of the provider's own engine."""
    module, kind, after = SDKS[provider]
    sdk = pytest.importorskip(module, reason="the SDK is not installed")
    make: Callable[..., Any] = getattr(sdk, kind)
    failures = _guard.counts()
    truths = {name: truth for name, truth in recordings.truths.items() if truth["provider"] == provider}
    wrong_times: dict[str, Any] = {}
    with recordings.served() as server, capture() as captured:

        def call(name: str) -> None:
            recording, raised = server.store.by_name[name], None
            with make(base_url=server.url(name, after), api_key="none", max_retries=0, timeout=20) as to:
                try:
                    send(to, recording)
                except sdk.APIError as error:
                    raised = error.with_traceback(None)
            if raised is not None:
                gc.collect()  # these SDKs leave a stream open in which an error came
            should = expected_phases(truths[name], recording["response"].get("body") or "")
            is_ = [phases(span) for span in captured.spans]
            if is_ != [pytest.approx(should, abs=1e-9)]:
                wrong_times[name] = (is_, should)
            if raised is not None:
                raise raised

        differing = differences(truths, captured, call)
    print_table(truths, differing, {})
    assert len(truths) == RECORDINGS[provider]
    assert differing == {}
    assert wrong_times == {}
    assert _guard.counts() == failures


def test_clients_are_found() -> None:
    """The names of clients, where their SDKs are installed."""
    for module, kind, _ in SDKS.values():
        try:
            sdk = import_module(module)
        except ImportError:
            continue
        assert hasattr(sdk, kind)
