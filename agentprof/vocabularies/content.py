"""Attributes of other tools that hold what was said: never read by `normalise`, kept only where a user asks.

Names of the GenAI conventions, OpenInference, OpenLLMetry, the Vercel AI SDK and Langfuse; those that end with
a dot stand for all names that begin so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

NAMES: Final = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.prompt",
        "gen_ai.completion",
        "input.value",
        "output.value",
        "llm.prompts",
        "llm.invocation_parameters",
        "tool.parameters",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "ai.prompt",
        "ai.prompt.messages",
        "ai.prompt.tools",
        "ai.response.text",
        "ai.response.object",
        "ai.response.toolCalls",
        "ai.toolCall.args",
        "ai.toolCall.result",
        "langfuse.observation.input",
        "langfuse.observation.output",
    }
)
PREFIXES: Final = (
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.prompt_template.",
    "llm.tools.",
    "retrieval.documents.",
    "llm.request.functions.",
    *(f"gen_ai.{kind}.{digit}" for kind in ("prompt", "completion") for digit in range(10)),
)
VALUE_LIMIT: Final = 64 * 1024
"""Characters kept of one attribute."""
SPAN_LIMIT: Final = 256 * 1024
"""Characters kept of one span; what follows is left out."""


def is_content(name: str) -> bool:
    """Whether an attribute of this name holds what was said."""
    return name in NAMES or name.startswith(PREFIXES)


def content_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """What was said, by name; values that are no text in JSON."""
    found: dict[str, str] = {}
    room = SPAN_LIMIT
    for name, value in attributes.items():
        if not is_content(name) or value is None:
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        found[name] = text[: min(VALUE_LIMIT, room)]
        room -= len(found[name])
        if room <= 0:
            break
    return found
