"""A receiver of OTLP over HTTP: where it is by the rules of the OpenTelemetry SDK, and what it may answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from opentelemetry.util.re import parse_env_headers

from agentprof import _guard

_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_CREDENTIALS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
)
_DEFAULT_TIMEOUT_S = 10.0


class Answer(NamedTuple):
    """What became of a request."""

    kind: Literal["taken", "later", "refused"]
    """`later`: the receiver could not be reached or asks to try again."""
    retry_after_s: float = 0.0
    rejected_spans: int = 0
    """Of a taken request: spans the receiver would not keep."""
    reason: str = ""
    """HTTP status or name of an exception; never data of the program."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and how."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    compression: str = "none"
    """`none`, `gzip` or `deflate`."""
    certificate: str | None = None
    """File of the authorities to trust; None: those of the system."""
    client_certificate: str | None = None
    client_key: str | None = None
    use_proxy: bool = True
    """Whether `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` hold; never for this machine itself."""


def _variable(name: str) -> str | None:
    """The variable for traces before the one for all signals; an empty one counts as not set."""
    return os.environ.get(f"{_PREFIX}TRACES_{name}") or os.environ.get(_PREFIX + name) or None


def wants_grpc() -> bool:
    """Whether the environment asks for OTLP over gRPC."""
    return (_variable("PROTOCOL") or "").strip().lower() == "grpc"


def needs_the_sdk() -> bool:
    """Whether the environment asks for something only the SDK's exporter can do: a credential provider."""
    return any(os.environ.get(name) for name in _CREDENTIALS)


def endpoint(url: str | None, default_url: str) -> Endpoint:
    """Where spans go over HTTP.

    Args:
        url: As the program says; it wins over the environment. The other variables hold all the same.
        default_url: Where neither says anything.
    """
    return Endpoint(
        url=url or _url(default_url),
        headers=parse_env_headers(_variable("HEADERS") or "", liberal=True),
        timeout_s=_timeout_s(),
        compression=_compression(),
        certificate=_variable("CERTIFICATE"),
        client_certificate=_variable("CLIENT_CERTIFICATE"),
        client_key=_variable("CLIENT_KEY"),
    )


def _url(default_url: str) -> str:
    if of_traces := os.environ.get(_PREFIX + "TRACES_ENDPOINT"):
        return of_traces
    if base := os.environ.get(_PREFIX + "ENDPOINT"):
        return base.removesuffix("/") + "/v1/traces"
    return default_url


def _timeout_s() -> float:
    said = _variable("TIMEOUT")
    try:
        seconds = float(said) if said is not None else _DEFAULT_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if 0 < seconds < 1e6:
        return seconds
    _guard.noted("export timeout", f"agentprof: {_PREFIX}TIMEOUT is no number of seconds; using 10")
    return _DEFAULT_TIMEOUT_S


def _compression() -> str:
    said = (_variable("COMPRESSION") or "none").strip().lower()
    if said in ("none", "gzip", "deflate"):
        return said
    _guard.noted("export compression", f"agentprof: {_PREFIX}COMPRESSION is none of none, gzip and deflate")
    return "none"
