"""The packages that programs call models with: which are loaded, and in which version."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Final

SDKS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google.genai": "google-genai",
    "mistralai": "mistralai",
    "openrouter": "openrouter",
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

TRIED: Final = {
    "openai": ("1.50.2", "3.57.0"),
    "anthropic": ("0.40.0", "2.14.0"),
    "groq": ("0.13.0", "1.7.0"),
    "cerebras": ("1.13.0", "1.91.0"),
    "together": ("2.0.0", "3.1.1"),
    "google.genai": ("1.0.0", "3.6.1"),
    "mistralai": ("1.2.6", "3.7.0"),
    "openrouter": ("0.9.2", "1.3.84"),
    "cohere": ("5.0.0", "7.3.1"),
    "ollama": ("0.1.9", "0.6.3"),
    "boto3": ("1.28.57", "1.44.8"),
    "litellm": ("1.75.8", "1.110.2"),
    "mcp": ("1.4.1", "2.3.0"),
}
"""The oldest and the newest version whose calls were tried in every style, by package: docs/supported.md."""


def outside(name: str, version: str) -> str | None:
    """How a version of a package lies outside those that are supported; None: it does not, or none are named.

    Supported is what is not older than the minor version of the oldest that was tried, and of no newer major
    version than the newest.
    """
    if name not in TRIED:
        return None
    oldest, newest = map(_numbers, TRIED[name])
    here = _numbers(version)
    if here[:2] < oldest[:2]:
        return f"older than {oldest[0]}.{oldest[1]}, the oldest version that is supported"
    if here[0] > newest[0]:
        return f"newer than {newest[0]}.x, the newest version that was tried"
    return None


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor version."""
    found = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return found[0] if found else 0, found[1] if len(found) > 1 else 0


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
