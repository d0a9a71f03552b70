"""How many requests an engine works on right now, from the figures it shows to Prometheus."""

from __future__ import annotations

import http.client
import re
from typing import Final
from urllib.parse import urlsplit

from agentprof_collector.errors import AgentprofError

GAUGES: Final = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "tgi_batch_current_size",
    "llamacpp:requests_processing",
)
"""Of requests that run, not of those that wait, by engine: vLLM, SGLang (with --enable-metrics), TGI, llama.cpp (with
--metrics)."""

_PATIENCE_S: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}]*\})?\s+(\S+)")


class RunningRequests:
    """The gauge of one engine; the series of several models, or of several of its workers, add up.

    Args:
        url: of its metrics.
        gauge: its name; None: that of an engine that is known.

    Raises:
        AgentprofError: this is no address.
    """

    def __init__(self, url: str, gauge: str | None = None) -> None:
        try:
            target = urlsplit(url)
            port = target.port
        except ValueError as error:
            raise AgentprofError(f"--metrics: {url!r} is no address ({error}).") from error
        if target.scheme not in ("http", "https") or not target.hostname:
            raise AgentprofError(
                f"--metrics: expected an address such as http://gpu1:8000/metrics, got {url!r}."
            )
        self._url = url
        self._path = target.path + (f"?{target.query}" if target.query else "")
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(target.hostname, port, timeout=_PATIENCE_S)
        self._gauges = GAUGES if gauge is None else (gauge,)

    def read(self) -> int:
        """Requests it works on now.

        Raises:
            AgentprofError: it does not answer, or does not say.
        """
        try:
            self._connection.request("GET", self._path or "/", headers={"Accept": "text/plain"})
            answer = self._connection.getresponse()
            text = answer.read(_MOST_BYTES).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise AgentprofError(f"{self._url}: no answer ({error or type(error).__name__}).") from error
        if answer.status != http.client.OK:
            self._connection.close()
            raise AgentprofError(f"{self._url}: status {answer.status} instead of figures for Prometheus.")
        found = running_in(text, self._gauges)
        if found is None:
            raise AgentprofError(
                f"{self._url}: none of {', '.join(self._gauges)} is there. SGLang needs --enable-metrics, llama.cpp "
                "--metrics; name the gauge of another engine with --running."
            )
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def running_in(text: str, gauges: tuple[str, ...]) -> int | None:
    """The sum of the first gauge that is there; None: none is, or its value is no number of requests."""
    series: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (sample := _SAMPLE.match(line)) is not None and sample[1] in gauges:
            series.setdefault(sample[1], []).append(sample[2])
    name = next((name for name in gauges if name in series), None)
    if name is None:
        return None
    try:
        total = sum(float(value) for value in series[name])
        return round(total) if 0 <= total < 1e6 else None
    except (ValueError, OverflowError):
        return None
