"""Whose host is it: names of providers as the GenAI conventions and the price tables spell them."""

from __future__ import annotations

from typing import Final

_BY_HOST: Final = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "api.groq.com": "groq",
    "openrouter.ai": "openrouter",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "x_ai",
    "api.mistral.ai": "mistral_ai",
    "api.cerebras.ai": "cerebras",
    "together.xyz": "together",
    "together.ai": "together",
    "api.fireworks.ai": "fireworks",
    "api.perplexity.ai": "perplexity",
    "api.sambanova.ai": "sambanova",
    "api.writer.com": "writer",
    "api.moonshot.ai": "moonshot",
    "router.huggingface.co": "huggingface",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "ollama.com": "ollama",
}


def provider_of(host: str) -> str | None:
    """The provider behind a host or one of its regional hosts; None for hosts nobody is known to own."""
    name = host
    while name:
        found = _BY_HOST.get(name)
        if found is not None:
            return found
        name = name.partition(".")[2]
    if host.startswith("bedrock") and host.endswith(".amazonaws.com"):
        return "aws.bedrock"
    if host.endswith("-aiplatform.googleapis.com"):
        return "gcp.vertex_ai"
    return None
