"""The packages that programs call models with: which are loaded, and in which version."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Final

SDKS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "mistralai": "mistralai",
    "cohere": "cohere",
    "groq": "groq",
    "cerebras": "cerebras-cloud-sdk",
    "together": "together",
    "fireworks": "fireworks-ai",
    "perplexity": "perplexityai",
    "sambanova": "sambanova",
    "writerai": "writer-sdk",
    "ollama": "ollama",
    "litellm": "litellm",
    "boto3": "boto3",
    "huggingface_hub": "huggingface-hub",
    "vllm": "vllm",
    "llama_cpp": "llama-cpp-python",
    "langchain_core": "langchain-core",
    "llama_index": "llama-index-core",
    "agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "crewai": "crewai",
    "mcp": "mcp",
    "httpx": "httpx",
    "httpx2": "httpx2",
    "requests": "requests",
    "aiohttp": "aiohttp",
    "urllib3": "urllib3",
}
"""Packages that a program may call models with, and the distributions that hold them."""

WITHOUT_MODELS: Final = frozenset({"httpx", "httpx2", "requests", "aiohttp", "urllib3", "mcp", "boto3"})
"""Those of them that programs also use for other things."""


@functools.cache
def version_of(name: str) -> str | None:
    """The version that is installed here, by the name of the package."""
    try:
        return metadata.version(SDKS[name])
    except (KeyError, metadata.PackageNotFoundError):
        return None


def loaded_sdks() -> dict[str, str | None]:
    """The packages this process has imported, with their versions."""
    return {name: version_of(name) for name in sorted(SDKS.keys() & sys.modules.keys())}


def named_versions(sdks: Mapping[str, str | None]) -> str:
    """`openai 3.57.0, httpx2 2.16.2`: those made for models first."""
    ordered = sorted(sdks, key=lambda name: (name in WITHOUT_MODELS, name))
    return ", ".join(f"{name} {sdks[name]}" if sdks[name] else name for name in ordered)
