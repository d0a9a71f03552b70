"""SDKs that send through plain HTTP clients, and ways to call them. Runs with many versions of them.

As a program it takes the name of an SDK and prints what the installed version gives, as JSON:
`{style: [what is missing]}`, `null` for a style the version does not have.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support import cohere_styles, google_styles, mistral_styles, ollama_styles, openrouter_styles, styles
from support.styles import Style


@dataclass(frozen=True)
class Sdk:
    """An SDK that sends through a plain HTTP client."""

    name: str
    """Of its distribution."""
    client: str
    """The class of its clients."""
    modules: tuple[str, ...]
    """Where that may be, depending on the version."""
    model: str
    """What it is asked for."""
    styles: Callable[[Any], tuple[Style, ...]]
    """All ways to call it that are tried, given that module."""

    def module(self) -> Any | None:
        """Where the clients of the installed version are; None: it is not installed."""
        for name in self.modules:
            try:
                found = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            if hasattr(found, self.client):
                return found
        return None


SDKS: dict[str, Sdk] = {
    sdk.name: sdk
    for sdk in (
        Sdk("google-genai", "Client", ("google.genai",), "gemini-2.5-flash", google_styles.styles_of),
        Sdk(
            "mistralai",
            "Mistral",
            ("mistralai.client", "mistralai"),
            "mistral-small",
            mistral_styles.styles_of,
        ),
        Sdk("cohere", "Client", ("cohere",), "command-a-03-2025", cohere_styles.styles_of),
        Sdk("openrouter", "OpenRouter", ("openrouter",), "vendor/model", openrouter_styles.styles_of),
        Sdk("ollama", "Client", ("ollama",), "llama3.2", ollama_styles.styles_of),
    )
}
_HTTP = ("httpx2", "httpx", "requests")


def _http(sdk: Sdk) -> str:
    """The HTTP library a version requires."""
    required = importlib.metadata.requires(sdk.name) or []
    names = {re.split(r"[^\w.-]", one)[0].lower() for one in required if "extra ==" not in one}
    return next(one for one in _HTTP if one in names)


def main(name: str) -> None:
    """Print what the installed version gives."""
    sdk = SDKS[name]
    module = sdk.module()
    found = {
        style.name: styles.missing(style, sdk.model) if styles.has(module, style) else None
        for style in sdk.styles(module)
    }
    version = importlib.metadata.version(sdk.name)
    print(json.dumps({"sdk": name, "version": version, "http": _http(sdk), "styles": found}))


if __name__ == "__main__":
    main(sys.argv[1])
