"""Every recording of the OpenAI wire formats goes through the SDK, and the span is compared with its truth.

The truths were computed from the recordings without any SDK. Run with `-s` for a table.
"""

import inspect
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

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


def _load(path: Path) -> Any:
    spec = spec_from_file_location(f"shared_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _method(client: openai.OpenAI, api: str, path: str) -> Callable[..., Any]:
    if api == "openai.chat":
        return client.chat.completions.create
    if api == "openai.completions":
        return client.completions.create
    if api == "openai.embeddings":
        return client.embeddings.create
    return client.responses.compact if path.endswith("/compact") else client.responses.create


def _send(client: openai.OpenAI, recording: dict[str, Any]) -> None:
    """One call as the recorded program made it; what the SDK's method does not know goes into the body."""
    request = recording["request"]
    is_embedding = recording["api"] == "openai.embeddings"
    if not isinstance(request.get("body_json"), dict) or (
        is_embedding and "input" not in request["body_json"]
    ):
        # Not a request the SDK's methods would make: through its generic one, as the bytes they were.
        text = request.get("body_text") or json.dumps(request.get("body_json", {}))
        end = "/embeddings" if is_embedding else "/chat/completions"
        client.post(end, cast_to=object, content=text.encode())
        return
    body = dict(request["body_json"])
    if "model" not in body and recording.get("path_model"):
        body["model"] = recording["path_model"]
    method = _method(client, recording["api"], recording["path"])
    known = set(inspect.signature(method).parameters) - {
        "extra_body",
        "extra_headers",
        "extra_query",
        "timeout",
    }
    named = {key: value for key, value in body.items() if key in known}
    answer = method(**named, extra_body={key: body[key] for key in body if key not in known})
    if body.get("stream"):
        for _ in answer:
            pass


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


@contextmanager
def _replayed(shared: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    folder = shared / "data" / "recordings"
    truths = [json.loads(line) for line in (folder / "truth.jsonl").read_text(encoding="utf8").splitlines()]
    with _load(folder / "replay.py").ReplayServer(str(folder)) as server:
        yield server, {truth["name"]: truth for truth in truths if truth["api"] in APIS}


def _differences(server: Any, truths: dict[str, Any], captured: Captured) -> dict[str, str]:
    """Recordings whose span differs from the truth, each with what differs."""
    client = openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0, timeout=20)
    differing: dict[str, str] = {}
    for name, truth in truths.items():
        recording = server.store.by_name[name]
        captured.spans.clear()
        raised = ""
        try:
            _send(client.copy(base_url=server.url(name, "/v1")), recording)
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
def test_spans_equal_the_truth(shared: Path) -> None:
    """Tokens, tool calls, finish reasons and status of all recordings are those of the bytes."""
    failures_before = _guard.counts()
    with _replayed(shared) as (server, truths), capture() as captured:
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
