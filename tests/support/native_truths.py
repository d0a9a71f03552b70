"""What the span of a recorded call must say, for wire formats that are none of OpenAI's or Anthropic's."""

from __future__ import annotations

import json
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


_EXPECTED = {"gemini": _gemini, "ollama": _ollama, "cohere": _cohere, "bedrock": _bedrock}
