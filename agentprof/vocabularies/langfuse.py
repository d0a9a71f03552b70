"""Langfuse's SDKs (https://github.com/langfuse/langfuse-python, langfuse/_client/attributes.py).

Usage and cost are JSON objects in one attribute each. The keys of usage are free; by Langfuse's rule those with
`input` in their name are parts of the input, those with `output` parts of the output, and the parts stand beside
each other: https://langfuse.com/docs/observability/features/token-and-cost-tracking
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any, Final

import msgspec

from agentprof.money import EXACT
from agentprof.vocabularies import values
from agentprof.vocabularies.shape import KindRule, Vocabulary

TYPE: Final = "langfuse.observation.type"
USAGE: Final = "usage_object"
COST: Final = "cost_object"

LANGFUSE = Vocabulary(
    name="langfuse",
    fields={
        "model": ("langfuse.observation.model.name",),
        USAGE: ("langfuse.observation.usage_details",),
        COST: ("langfuse.observation.cost_details",),
    },
    kinds=(
        KindRule(
            TYPE,
            {
                "generation": "model",
                "embedding": "model",
                "tool": "tool",
                "agent": "agent",
                "chain": "step",
                "retriever": "step",
                "guardrail": "step",
                "evaluator": "step",
            },
        ),
    ),
    # What is only called a span says nothing that other names on it do not say better.
    kind_by_presence=((TYPE, "step"),),
)

_KEYS: Final = 64
_PARTS: Final = {"cached": "cache_read", "cache_read": "cache_read"} | dict.fromkeys(
    ("cache_creation", "cache_write"), "cache_write"
)


def usage_in(value: Any) -> dict[str, int]:
    """Token counts by field, from a JSON object of counts."""
    counts = {key: tokens for key, one in _object(value) if (tokens := values.count(one)) is not None}
    given, said, total = counts.get("input"), counts.get("output"), counts.get("total")
    found: dict[str, int] = {}
    for key, tokens in counts.items():
        if "reasoning" in key:
            found["reasoning"] = found.get("reasoning", 0) + tokens
        part = next((field for word, field in _PARTS.items() if word in key), None)
        if part is not None:
            found[part] = found.get(part, 0) + tokens
    whole = total is not None and total == (given or 0) + (said or 0)
    for direction, alone in (("input", given), ("output", said)):
        if whole and alone is not None:
            found[direction] = alone  # the total says that the parts are in it
        elif any(direction in key for key in counts):
            found[direction] = sum(tokens for key, tokens in counts.items() if direction in key)
    return found


def cost_in(value: Any) -> Decimal | None:
    """The amount of a JSON object of amounts, in US dollars: its total, else what its parts add up to."""
    amounts = {key: usd for key, one in _object(value) if (usd := values.usd(one)) is not None}
    if "total" in amounts or not amounts:
        return amounts.get("total")
    with localcontext(EXACT):
        return sum(amounts.values(), Decimal(0))


def _object(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, str):
        return []
    try:
        found = msgspec.json.decode(value)
    except values.UNREADABLE:
        return []
    return list(found.items())[:_KEYS] if isinstance(found, dict) else []
