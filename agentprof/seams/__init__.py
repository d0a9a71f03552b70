"""Where agentprof hooks into SDKs, HTTP libraries and servers: one module a family, all listed in `SEAMS`.

A seam says when a call, an attempt or a chunk begins and ends; what the bytes mean is told by `dialects`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final, Protocol

from agentprof._patching import Patch
from agentprof.seams import (
    aiohttp,
    botocore,
    httpcore,
    httpx,
    litellm,
    mcp,
    repeating,
    requests,
    served,
    stainless,
    urllib3,
)


class Seam(Protocol):
    """One family of SDKs or HTTP libraries."""

    MODULES: tuple[str, ...]
    """Modules to patch when they are imported; a seam imports none of them itself."""

    def patches(self, module: ModuleType) -> list[Patch]:
        """The replacements for one of these modules, not applied yet."""


SEAMS: Final[tuple[Seam, ...]] = (
    stainless,
    litellm,
    repeating,
    httpx,
    httpcore,
    requests,
    urllib3,
    botocore,
    aiohttp,
    served,
    mcp,
)
