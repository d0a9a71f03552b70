"""OpenInference (https://github.com/Arize-ai/openinference, spec/semantic_conventions.md)."""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

OPENINFERENCE = Vocabulary(
    name="openinference",
    fields={
        "model": ("llm.response.model_name", "llm.model_name", "embedding.model_name", "reranker.model_name"),
        "request_model": ("llm.request.model_name",),
        # The host that served the call before the vendor of the model: prices go by the host.
        "provider": ("llm.provider", "llm.system"),
        "finish_reasons": ("llm.finish_reason",),
        "tool_name": ("tool.name",),
        "tool_call_id": ("tool.id", "tool_call.id"),
        "agent_name": ("agent.name", "graph.node.name"),
        "cost": ("llm.cost.total",),
        "input": ("llm.token_count.prompt",),
        "output": ("llm.token_count.completion",),
        "cache_read": (
            "llm.token_count.prompt_details.cache_read",
            "llm.token_count.prompt_details.cache_input",
        ),
        "cache_write": ("llm.token_count.prompt_details.cache_write",),
        "reasoning": ("llm.token_count.completion_details.reasoning",),
        "input_audio": ("llm.token_count.prompt_details.audio",),
        "output_audio": ("llm.token_count.completion_details.audio",),
    },
    kinds=(
        KindRule(
            "openinference.span.kind",
            {
                "llm": "model",
                "embedding": "model",
                "reranker": "model",
                "tool": "tool",
                "agent": "agent",
                "chain": "step",
                "retriever": "step",
                "guardrail": "step",
                "evaluator": "step",
                "prompt": "step",
                "decision": "step",
            },
        ),
    ),
)
