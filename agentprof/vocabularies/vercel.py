"""Vercel's AI SDK up to its version 5 (https://github.com/vercel/ai); later ones write GenAI names alone.

The spans named `ai.generateText` and the like repeat what the calls below them, `...doGenerate`, say.
"""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

VERCEL = Vocabulary(
    name="vercel",
    fields={
        "model": ("ai.response.model",),
        "request_model": ("ai.model.id",),
        "provider": ("ai.model.provider",),
        "response_id": ("ai.response.id",),
        "finish_reasons": ("ai.response.finishReason",),
        "tool_name": ("ai.toolCall.name",),
        "tool_call_id": ("ai.toolCall.id",),
        "agent_name": ("ai.telemetry.functionId",),
        "input": ("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
        "output": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        "cache_read": ("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
        "cache_write": ("ai.usage.inputTokenDetails.cacheWriteTokens",),
        "reasoning": ("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"),
    },
    kinds=(
        KindRule(
            "ai.operationId",
            {
                "ai.generatetext": "agent",
                "ai.streamtext": "agent",
                "ai.generateobject": "agent",
                "ai.streamobject": "agent",
                "ai.embed": "step",
                "ai.embedmany": "step",
                "ai.generatetext.dogenerate": "model",
                "ai.streamtext.dostream": "model",
                "ai.generateobject.dogenerate": "model",
                "ai.streamobject.dostream": "model",
                "ai.embed.doembed": "model",
                "ai.embedmany.doembed": "model",
                "ai.toolcall": "tool",
            },
        ),
    ),
)
