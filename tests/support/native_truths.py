"""What the span of a recorded call must say, for wire formats that are none of OpenAI's or Anthropic's."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from support.truth import expected_besides_usage

_NUMBERS = {1: "STOP"}


def expected(truth: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """Tokens normalised, the rest as the provider reports it.

    Args:
        recording: Of the truth, for what that leaves out.
    """
    if truth["api"] == "gemini.interactions":
        return _interactions(truth, recording)
    if truth["api"] == "bedrock.invoke":
        return _invoked(truth, recording)
    return _EXPECTED[truth["api"].partition(".")[0]](truth, recording)


def _interactions(truth: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """The truth leaves out all of these: it is the last usage and status in the bytes."""
    body = recording["response"]["body"]
    last = [line.removeprefix("data: ") for line in body.splitlines() if '"total_tokens"' in line][-1]
    answer = json.loads(last)
    answer = answer.get("interaction", answer)
    usage = answer["usage"]
    return expected_besides_usage(truth | {"finish_reasons": [answer["status"]]}) | {
        "input": usage["total_input_tokens"] + usage["total_tool_use_tokens"],
        "output": usage["total_output_tokens"] + usage["total_thought_tokens"],
        "cache_read": usage["total_cached_tokens"],
        "reasoning": usage["total_thought_tokens"],
    }


def _gemini(truth: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """Thoughts stand beside the output, what tools put into the prompt beside the input; 0 may be left out."""
    raw = truth["usage_raw"] or {}
    given, thoughts, output = truth["input_tokens"], truth["reasoning_tokens"], truth["output_tokens"]
    if given is not None:
        given += raw.get("toolUsePromptTokenCount", 0)
    if output is not None or thoughts is not None:
        output = (output or 0) + (thoughts or 0)
    elif given is not None and truth["total_tokens"] is not None:
        output = truth["total_tokens"] - given
    besides = expected_besides_usage(truth)
    besides["finish_reasons"] = [
        _NUMBERS.get(reason, str(reason).removeprefix("BLOCK:")) for reason in besides["finish_reasons"]
    ]
    return besides | {
        "input": given,
        "output": output,
        "cache_read": truth["cached_input_tokens"],
        "cache_write": None,
        "reasoning": thoughts,
    }


def _ollama(truth: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """Counts as they are; nothing is said of caches and reasoning."""
    return expected_besides_usage(truth) | {
        "input": truth["input_tokens"],
        "output": truth["output_tokens"],
        "cache_read": None,
        "reasoning": None,
    }


def _cohere(truth: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """What the model read and wrote, images beside. The truth has no end of a stream: it is read here."""
    raw, reasons, names = truth["usage_raw"], truth["finish_reasons"], list(truth["tool_calls"])
    if truth["streaming"] or truth["api"] == "cohere.embed":
        for line in (recording["response"].get("body") or "").splitlines():
            text = line.removeprefix("data: ")
            event = json.loads(text) if text.startswith("{") else {}
            end = event.get("delta") or event.get("response") or event
            raw = end.get("usage") or end.get("meta") or raw
            reasons = [end["finish_reason"]] if end.get("finish_reason") else reasons
            if event.get("type") == "tool-call-start":
                names.append(event["delta"]["message"]["tool_calls"]["function"]["name"])
    tokens = (raw or {}).get("tokens") or (raw or {}).get("billed_units") or {}
    return expected_besides_usage(truth | {"finish_reasons": reasons, "tool_calls": names}) | {
        "input": tokens["input_tokens"] + tokens.get("image_tokens", 0) if tokens else None,
        "output": tokens.get("output_tokens"),
        "cache_read": (raw or {}).get("cached_tokens"),
        "reasoning": tokens.get("reasoning_tokens"),
    }


def _bedrock(truth: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """The cache stands beside the input; a tool of the provider is no call of a tool."""
    names = [name for name in truth["tool_calls"] or () if not str(name).startswith("nova_")]
    cache = [truth["cached_input_tokens"], truth["cache_write_tokens"]]
    given = truth["input_tokens"]
    return expected_besides_usage(truth | {"tool_calls": names}) | {
        "input": None if given is None else given + sum(count or 0 for count in cache),
        "output": truth["output_tokens"],
        "cache_read": cache[0],
        "cache_write": cache[1],
    }


def _invoked(truth: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """Of whole answers the truth looks at bodies of Anthropic only: the service's own counts stand in headers."""
    headers = {name.lower(): value for name, value in recording["response"]["headers"].items()}
    events = list(_events(recording)) if truth["streaming"] else [_body(recording)]
    reasons: dict[Any, str] = {}
    names = []
    for event in events:
        for place, part in enumerate(_parts(event)):
            end = part.get("finishReason")
            reason = part.get("stop_reason") or part.get("stopReason") or part.get("finish_reason")
            reason = reason or part.get("completionReason") or (end or {}).get("reason")
            if reason:
                reasons[part.get("index") or place] = reason
            names += [tool["toolUse"]["name"] for tool in _used(part)]
    if truth["tool_calls"]:
        names = truth["tool_calls"]
    found = dict(truth)
    for field, name in _COUNTS.items():
        if truth[field] is None and f"x-amzn-bedrock-{name}-token-count" in headers:
            found[field] = int(headers[f"x-amzn-bedrock-{name}-token-count"])
        for event in events:
            metrics = event.get("amazon-bedrock-invocationMetrics") or {}
            said = metrics.get(_NAMES_IN_STREAM[field], event.get(_OF_TITAN.get(field, "")))
            if truth[field] is None and said is not None:
                found[field] = said
    return _bedrock(
        found | {"finish_reasons": truth["finish_reasons"] or list(reasons.values()), "tool_calls": names}, {}
    )


_COUNTS = {"input_tokens": "input", "output_tokens": "output"}
_COUNTS |= {"cached_input_tokens": "cache-read-input", "cache_write_tokens": "cache-write-input"}
_NAMES_IN_STREAM = {"input_tokens": "inputTokenCount", "output_tokens": "outputTokenCount"}
_NAMES_IN_STREAM |= {"cached_input_tokens": "cacheReadInputTokenCount"}
_NAMES_IN_STREAM |= {"cache_write_tokens": "cacheWriteInputTokenCount"}
_OF_TITAN = {"input_tokens": "inputTextTokenCount", "output_tokens": "totalOutputTextTokenCount"}


def _body(recording: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(recording["response"]["body"])
    return body


def _events(recording: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the frames of AWS hold."""
    data, at = base64.b64decode(recording["response"]["body_b64"]), 0
    while at < len(data):
        size, of_headers, _ = struct.unpack_from(">III", data, at)
        payload = json.loads(data[at + 12 + of_headers : at + size - 4])
        at += size
        yield json.loads(base64.b64decode(payload["bytes"])) if "bytes" in payload else payload


def _parts(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Where a family says why it stopped: in one of several texts, in the event of the end, or at the top."""
    for name in ("results", "outputs", "generations", "completions", "choices"):
        if name in event:
            return list(event[name])
    return [event.get("messageStop") or event.get("delta") or event]


def _used(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Tools that Nova asks for, whole or as they begin in a stream."""
    content = ((part.get("output") or {}).get("message") or {}).get("content") or []
    return [
        *(block for block in content if "toolUse" in block),
        *([part["contentBlockStart"]["start"]] if "contentBlockStart" in part else []),
    ]


_EXPECTED = {"gemini": _gemini, "ollama": _ollama, "cohere": _cohere, "bedrock": _bedrock}
