"""What the anthropic SDK says in the spans it makes itself (2 and later) beside GenAI names.

Its spans of endpoints that run no model name a model too, and no operation: their route tells.
"""

from __future__ import annotations

from agentprof.vocabularies.shape import KindRule, Vocabulary

ANTHROPIC_SDK = Vocabulary(
    name="anthropic_sdk",
    fields={
        "service_tier": ("anthropic.response.service_tier",),
        "request_id": ("anthropic.request.id",),
        "cache_write_1h": ("anthropic.usage.cache_creation.ephemeral_1h_input_tokens",),
    },
    kinds=(
        KindRule(
            "http.route",
            {
                "/v1/messages/count_tokens": "other",
                "/v1/messages/batches": "other",
                "/v1/sessions": "other",
            },
        ),
    ),
)
