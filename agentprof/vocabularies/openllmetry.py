"""OpenLLMetry, also called Traceloop (https://github.com/traceloop/openllmetry, semconv_ai).

Calls carry GenAI names; what is its own is the kind of the other spans and some older token names.
"""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

OPENLLMETRY = Vocabulary(
    name="openllmetry",
    fields={
        "stream": ("gen_ai.is_streaming", "llm.is_streaming"),
        "step_name": ("traceloop.entity.name", "traceloop.workflow.name"),
        "service_tier": ("gen_ai.openai.response.service_tier",),
        "input": ("llm.usage.prompt_tokens",),
        "output": ("llm.usage.completion_tokens",),
        "cache_read": ("gen_ai.usage.cache_read_input_tokens",),
        "cache_write": ("gen_ai.usage.cache_creation_input_tokens",),
        "reasoning": ("gen_ai.usage.reasoning_tokens", "llm.usage.reasoning_tokens"),
    },
    kinds=(
        KindRule(
            "traceloop.span.kind",
            {"workflow": "agent", "agent": "agent", "task": "step", "tool": "tool"},
        ),
        KindRule(
            "llm.request.type",
            {"chat": "model", "completion": "model", "embedding": "model", "rerank": "model"},
        ),
    ),
)
