"""Clients of generated SDKs: where they send, who that is, and what their paths mean."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from agentprof._providers import provider_of

OWN_PATHS: Final = {
    "/messages": ("sambanova", "/v1/messages"),
    "/v1/chat": ("writerai", "/v1/chat/completions"),
}
"""Paths that mean something else without their SDK: its name, and the usual path for what is posted there."""


def usual_path(client: Any, path: str) -> str:
    """What a path of `OWN_PATHS` means when this client posts to it."""
    sdk, usual = OWN_PATHS[path]
    return usual if type(client).__module__.partition(".")[0] == sdk else path


PORTS: Final = {"http": 80, "https": 443}
_IMPORTING: Final = ("openai", "openai.lib.azure")
"""Where classes of clients are whose `base_url` imports a module whenever it is read; others may have another."""
_servers: dict[int, tuple[Any, str, int | None, str | None]] = {}


def server(client: Any) -> tuple[str, int | None, str | None]:
    """Host, port and provider of a client; its URL object is kept so that the id stays its own."""
    url = client._base_url if type(client).__module__ in _IMPORTING else client.base_url
    known = _servers.get(id(url))
    if known is None or known[0] is not url:
        host = url.host
        if len(_servers) >= 256:
            _servers.clear()
        port = url.port or PORTS.get(url.scheme)
        known = _servers[id(url)] = (url, host, port, provider_of(host) or _provider_by_client(client))
    return known[1:]


def named_server(url: str) -> tuple[str, int | None, str | None]:
    """The same for a request to another server than that of its client, as together makes them."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return host, parts.port or PORTS.get(parts.scheme), provider_of(host)


_BY_CLIENT: Final = {
    "BaseAzureClient": "azure.ai.openai",
    "BaseBedrockClient": "aws.bedrock",
    "BaseFoundryClient": "azure.ai.inference",
    "BaseMantleClient": "aws.bedrock",
    "BaseVertexClient": "gcp.vertex_ai",
}


def _provider_by_client(client: Any) -> str | None:
    """A client made for a provider reaches it behind a gateway too, whose host says nothing."""
    names = (_BY_CLIENT.get(kind.__name__) for kind in type(client).__mro__)
    return next(filter(None, names), None)
