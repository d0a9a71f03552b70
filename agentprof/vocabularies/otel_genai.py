"""OpenTelemetry GenAI conventions: up to 1.36, 1.37 to 1.41, and v0.1.0 of their own repository.

https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

OTEL_GENAI = Vocabulary(
    name="otel_genai",
    fields={
        "model": ("gen_ai.response.model",),
        "request_model": ("gen_ai.request.model",),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "operation": ("gen_ai.operation.name",),
        "response_id": ("gen_ai.response.id",),
        "finish_reasons": ("gen_ai.response.finish_reasons",),
        "stream": ("gen_ai.request.stream", "gen_ai.request.is_stream"),
        "service_tier": (
            "openai.response.service_tier",
            "gen_ai.openai.response.service_tier",
        ),
        "tool_name": ("gen_ai.tool.name",),
        "tool_call_id": ("gen_ai.tool.call.id", "gen_ai.tool.call_id"),
        "agent_name": ("gen_ai.agent.name", "gen_ai.workflow.name"),
        "error_type": ("error.type",),
        "server_address": ("server.address",),
        "server_port": ("server.port",),
        "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "cache_read": ("gen_ai.usage.cache_read.input_tokens",),
        "cache_write": ("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens"),
        "reasoning": ("gen_ai.usage.reasoning.output_tokens",),
    },
    kinds=(
        KindRule(
            "gen_ai.operation.name",
            {
                "chat": "model",
                "generate_content": "model",
                "text_completion": "model",
                "embeddings": "model",
                "execute_tool": "tool",
                "invoke_agent": "agent",
                "invoke_workflow": "agent",
                "create_agent": "step",
                "plan": "step",
                "retrieval": "step",
                # Fetching the state of a stored response runs no model.
                "fetch_response": "step",
                "create_memory_store": "step",
                "search_memory": "step",
                "create_memory": "step",
                "update_memory": "step",
                "upsert_memory": "step",
                "delete_memory": "step",
                "delete_memory_store": "step",
                # Operation names in the wild.
                "completion": "model",
                "embedding": "model",
                "moderation": "model",
                "execute_task": "step",
                "chain": "step",
            },
        ),
        KindRule("mcp.method.name", {"tools/call": "tool"}),
    ),
    kind_by_presence=(
        ("gen_ai.tool.name", "tool"),
        ("gen_ai.tool.call.id", "tool"),
        ("gen_ai.request.model", "model"),
        ("gen_ai.response.model", "model"),
    ),
)
