"""What the span of a recorded call must say, for wire formats that are none of OpenAI's or Anthropic's."""

from __future__ import annotations

from typing import Any

from support.truth import expected_besides_usage

_NUMBERS = {1: "STOP"}


def expected(truth: dict[str, Any]) -> dict[str, Any]:
    """Tokens normalised, the rest as the provider reports it."""
    return _EXPECTED[truth["api"].partition(".")[0]](truth)


def _gemini(truth: dict[str, Any]) -> dict[str, Any]:
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


_EXPECTED = {"gemini": _gemini}
