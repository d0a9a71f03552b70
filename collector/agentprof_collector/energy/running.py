"""How many requests an engine works on right now, and how many tokens it has, from its figures for Prometheus."""

from __future__ import annotations

import http.client
import re
from typing import Final, NamedTuple
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

TOKEN_COUNTERS: Final = {
    "vllm:num_requests_running": ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
}
"""By gauge: tokens of prompts and answers, of engines that count them in each step. SGLang, TGI and llama.cpp count
those of a request when it ends, which says nothing of a moment."""

_PATIENCE_S: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}]*\})?\s+(\S+)")


class Load(NamedTuple):
    """What an engine says of itself."""

    running: int
    """Requests it works on now."""
    tokens: int | None = None
    """Of all requests since it started; None: it does not count them in each step."""


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

    def read(self) -> Load:
        """What it says now.

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
        found = load_in(text, self._gauges)
        if found is None:
            raise AgentprofError(
                f"{self._url}: none of {', '.join(self._gauges)} is there. SGLang needs --enable-metrics, llama.cpp "
                "--metrics; name the gauge of another engine with --running."
            )
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def load_in(text: str, gauges: tuple[str, ...]) -> Load | None:
    """What the first gauge that is there says; None: none is, or its value is no number of requests."""
    wanted = {*gauges, *(name for gauge in gauges for name in TOKEN_COUNTERS.get(gauge, ()))}
    series: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (sample := _SAMPLE.match(line)) is not None and sample[1] in wanted:
            series.setdefault(sample[1], []).append(sample[2])
    name = next((name for name in gauges if name in series), None)
    running = None if name is None else _sum(series[name], 1e6)
    if name is None or running is None:
        return None
    counters = [_sum(series.get(counter, []), 2**62) for counter in TOKEN_COUNTERS.get(name, ())]
    known = [count for count in counters if count is not None]
    return Load(running, sum(known) if counters and len(known) == len(counters) else None)


def _sum(values: list[str], most: float) -> int | None:
    """None: there are none, or they are no count."""
    try:
        total = sum(float(value) for value in values)
        return round(total) if values and 0 <= total < most else None
    except (ValueError, OverflowError):
        return None
