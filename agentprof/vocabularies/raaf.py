"""RAAF, an agents framework for Ruby (https://github.com/raaf-ai/raaf): spans of its tracing.

Its runner calls itself, so that a call stands above the tool it asked for and the next call: two calls, with a tool
between them. Token counts have the older names of OpenLLMetry.
"""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

RAAF = Vocabulary(
    name="raaf",
    fields={
        "model": ("llm.model",),
        "request_model": ("llm.request.model",),
        "tool_name": ("function.name",),
    },
    kinds=(
        KindRule(
            "raaf.span.kind",
            {
                "agent": "agent",
                "llm": "model",
                "tool": "tool",
                "pipeline": "step",
                "handoff": "step",
                "guardrail": "step",
            },
        ),
    ),
)
