"""What the span of a recorded call must say, from the truth of its recording."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from agentprof import attributes
from agentprof.testing import Captured

Truths = dict[str, dict[str, Any]]


def expected(truth: dict[str, Any]) -> dict[str, Any]:
    """What the span must say: tokens normalised, the rest as the provider reports it."""
    return (
        _expected_of_anthropic(truth) if truth["api"] == "anthropic.messages" else _expected_of_openai(truth)
    )


def _expected_of_openai(truth: dict[str, Any]) -> dict[str, Any]:
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
    } | expected_besides_usage(truth)


def _expected_of_anthropic(truth: dict[str, Any]) -> dict[str, Any]:
    """Here the cache stands beside the input, and tools at the provider are counted in the usage or as blocks."""
    raw = truth["usage_raw"] or {}
    cache = [truth["cached_input_tokens"], truth["cache_write_tokens"]]
    given = truth["input_tokens"]
    server_tools = Counter(name for name in truth["builtin_calls"] or () if name != "echo")
    server_tools["mcp"] = len(truth["builtin_calls"] or ()) - server_tools.total()  # an MCP server's own name
    for name, uses in (raw.get("server_tool_use") or {}).items():
        server_tools[name.removesuffix("_requests")] = uses
    return {
        "input": None if given is None else given + sum(count or 0 for count in cache),
        "output": truth["output_tokens"],
        "cache_read": cache[0],
        "cache_write": cache[1],
        "cache_write_1h": (raw.get("cache_creation") or {}).get("ephemeral_1h_input_tokens"),
        "reasoning": truth["reasoning_tokens"],
        "server_tools": {name: uses for name, uses in server_tools.items() if uses},
        "service_tier": truth["service_tier"],
    } | expected_besides_usage(truth)


def expected_besides_usage(truth: dict[str, Any]) -> dict[str, Any]:
    return {
        "tool_calls": sorted(name for name in truth["tool_calls"] or () if name),
        "finish_reasons": [reason for reason in truth["finish_reasons"] or () if reason is not None],
        "error": truth["status"] >= 400 or truth["error_where"] is not None,
        "status": [str(truth["status"])] if truth["status"] >= 400 else [],
    }


def found(span: ReadableSpan) -> dict[str, Any]:
    said = span.attributes or {}
    return {
        "input": said.get(attributes.INPUT_TOKENS),
        "output": said.get(attributes.OUTPUT_TOKENS),
        "cache_read": said.get(attributes.CACHE_READ_TOKENS),
        "cache_write": said.get(attributes.CACHE_WRITE_TOKENS),
        "cache_write_1h": said.get(attributes.CACHE_WRITE_1H_TOKENS),
        "reasoning": said.get(attributes.REASONING_TOKENS),
        "server_tools": {
            name.removeprefix(attributes.SERVER_TOOLS): uses
            for name, uses in said.items()
            if name.startswith(attributes.SERVER_TOOLS)
        },
        "service_tier": said.get(attributes.SERVICE_TIER),
        "tool_calls": sorted(str(name) for name in said.get(attributes.TOOL_CALLS, ())),  # type: ignore[union-attr]
        "finish_reasons": list(said.get(attributes.FINISH_REASONS, ())),  # type: ignore[arg-type]
        "error": span.status.status_code is StatusCode.ERROR,
        "status": list(said.get(attributes.ATTEMPT_STATUS, ())),  # type: ignore[arg-type]
    }


def differences(
    truths: Truths,
    captured: Captured,
    send: Callable[[str], None],
    expected: Callable[[dict[str, Any]], dict[str, Any]] = expected,
) -> dict[str, str]:
    """Recordings whose span differs from the truth, each with what differs.

    Args:
        send: Makes the recorded call of a name; what it raises is noted.
        expected: What the span must say, from the truth.
    """
    differing: dict[str, str] = {}
    for name, truth in truths.items():
        captured.spans.clear()
        raised = "nothing"
        try:
            send(name)
        except Exception as error:  # noqa: BLE001 (SDKs fail on some recorded answers)
            raised = type(error).__name__
        if len(captured.spans) != 1:
            differing[name] = f"{len(captured.spans)} spans, raised {raised}"
            continue
        is_, should = found(captured.spans[0]), expected(truth)
        wrong = {key: (is_[key], should[key]) for key in should if is_[key] != should[key]}
        if wrong:
            differing[name] = f"{wrong} raised {raised}"
    return differing


def print_table(truths: Truths, differing: Mapping[str, str], explained: Mapping[str, str]) -> None:
    """How many are equal and how many differ, by API and provider."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for name, truth in truths.items():
        counts[truth["api"], truth["provider"]]["differ" if name in differing else "equal"] += 1
    print()
    for (api, provider), count in sorted(counts.items()):
        print(f"{api:20} {provider:14} equal {count['equal']:4}  differ {count['differ']:3}")
    for name, what in differing.items():
        print(f"{name}: {what}; {explained.get(name, 'NOT EXPLAINED')}")
