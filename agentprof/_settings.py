"""What `instrument()` was asked for, read once from its arguments and the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentprof import _guard
from agentprof._hosts import is_private

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from agentprof._run.settings import RunSettings

DEFAULT_ENDPOINT = "http://127.0.0.1:4318/v1/traces"
"""Where a collector on this machine listens."""

EXIT_TIMEOUT_S = 2.0

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})

_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Settings:
    """Arguments and environment of one `instrument()`."""

    service_name: str | None = None
    endpoint: str | None = None
    """Full URL of an OTLP/HTTP receiver of traces."""
    exporter: SpanExporter | None = None
    tracer_provider: TracerProvider | None = None
    capture_content: bool = False
    propagate_to: tuple[str, ...] | None = None
    """Hosts that get a `traceparent`; None: loopback and private addresses."""
    config: str | None = None
    """Path of an agentprof.yaml."""
    stream_usage: bool = False
    """Ask for the usage chunk of chat streams, and hide it from the program."""
    estimate_usage: bool = False
    """Estimate tokens that nobody reports."""
    endpoint_from_environment: bool = False
    exit_timeout_s: float = EXIT_TIMEOUT_S
    """How long the end of the program may wait for the last spans."""
    spool: Path | None = None
    """Folder of spans that no collector takes; None: they are not kept on disk."""
    run: RunSettings | None = None
    """The run this process is part of; its spans go there too."""
    provisional: bool = False
    """Switched on by the run, before the program has asked for anything."""
    _hosts: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def propagates_to(self, host: str) -> bool:
        """Whether requests to a host carry `traceparent`."""
        known = self._hosts.get(host)
        if known is None:
            if self.propagate_to is None:
                known = is_private(host)
            else:
                known = any(_matches(host, pattern) for pattern in self.propagate_to)
            if len(self._hosts) < 1000:
                self._hosts[host] = known
        return known


def read(
    *,
    service_name: str | None,
    endpoint: str | None,
    exporter: SpanExporter | None,
    tracer_provider: TracerProvider | None,
    capture_content: bool,
    propagate_to: Iterable[str] | None,
    config: str | None,
    exit_timeout_s: float | None = None,
    stream_usage: bool | None = None,
    estimate_usage: bool | None = None,
    run: RunSettings | None = None,
    provisional: bool = False,
) -> Settings:
    """Join arguments and environment; an argument wins over a variable."""
    if isinstance(propagate_to, str):
        propagate_to = (propagate_to,)
    return Settings(
        service_name=service_name or os.environ.get("OTEL_SERVICE_NAME") or None,
        endpoint=_traces_url(endpoint) if endpoint else None,
        exporter=exporter,
        tracer_provider=tracer_provider,
        capture_content=capture_content,
        propagate_to=None if propagate_to is None else tuple(host.lower() for host in propagate_to),
        config=config,
        stream_usage=_is_on("AGENTPROF_STREAM_USAGE") if stream_usage is None else bool(stream_usage),
        estimate_usage=_is_on("AGENTPROF_ESTIMATE_USAGE") if estimate_usage is None else bool(estimate_usage),
        endpoint_from_environment=any(os.environ.get(name) for name in _OTLP_VARIABLES),
        exit_timeout_s=_exit_timeout_s() if exit_timeout_s is None else max(float(exit_timeout_s), 0.0),
        spool=_spool_folder(),
        run=run,
        provisional=provisional,
    )


def _is_on(variable: str) -> bool:
    """Whether a variable switches something on."""
    said = os.environ.get(variable, "").strip().lower()
    if said not in _ON and said not in _OFF:
        _guard.noted(variable, f"agentprof: {variable} is neither 1 nor 0; it counts as 0")
    return said in _ON


def _exit_timeout_s() -> float:
    said = os.environ.get("AGENTPROF_EXIT_TIMEOUT_S")
    if not said:
        return EXIT_TIMEOUT_S
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if 0 <= seconds < math.inf:
        return seconds
    _guard.noted(
        "exit timeout",
        f"agentprof: AGENTPROF_EXIT_TIMEOUT_S is no number of seconds; using {EXIT_TIMEOUT_S:g}",
    )
    return EXIT_TIMEOUT_S


def _spool_folder() -> Path | None:
    """The folder `AGENTPROF_SPOOL` names, none if it is empty, else one in the user's state folder."""
    named = os.environ.get("AGENTPROF_SPOOL")
    if named == "":
        return None
    try:
        if named is not None:
            return Path(named).expanduser().absolute()
        state = os.environ.get("XDG_STATE_HOME")
        base = Path(state) if state and os.path.isabs(state) else Path.home() / ".local" / "state"
        return base / "agentprof" / "spool"
    except (RuntimeError, OSError):  # no home, or no working directory any more
        return None


def _traces_url(endpoint: str) -> str:
    """A bare `http://host:port` means its standard path."""
    after_scheme = endpoint.partition("://")[2] or endpoint
    if "/" in after_scheme.rstrip("/"):
        return endpoint
    return endpoint.rstrip("/") + "/v1/traces"


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern
