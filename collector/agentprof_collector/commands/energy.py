"""`agentprof energy`: measures the GPUs of an endpoint while its calls run."""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click

from agentprof import _format as fmt
from agentprof.model import EnergyWindow
from agentprof_collector.commands.options import db_option, json_option, url_option
from agentprof_collector.commands.signals import stopped_by_signals
from agentprof_collector.energy.nvml import NvmlCounter
from agentprof_collector.energy.running import RunningRequests
from agentprof_collector.energy.sampler import Sampler
from agentprof_collector.errors import AgentprofError, StoreMissing
from agentprof_collector.reports import to_json
from agentprof_collector.sources import open_source

_AT_ONCE: Final = 50
_SEND_EVERY: Final = 5
"""Windows."""
_WAITING: Final = 20_000
"""Windows that are kept while nobody takes them: more than five hours of seconds."""

_log = logging.getLogger(__name__)


def _numbers(context: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    numbers = value.split(",")
    if not all(number.isdecimal() and len(number) < 4 for number in numbers):
        raise click.BadParameter(f"expected numbers of GPUs as 0,1, got {value!r}")
    return tuple(dict.fromkeys(int(number) for number in numbers))


@click.command()
@click.option("--server", required=True, metavar="HOST:PORT", help="The endpoint, as calls name it.")
@click.option(
    "--metrics", metavar="URL", help="Its figures for Prometheus. Default: http://HOST:PORT/metrics."
)
@click.option(
    "--running", metavar="NAME", help="The gauge of requests that run, of an engine that is not known."
)
@click.option("--gpus", callback=_numbers, metavar="0,1", help="Its GPUs. Default: all of this machine.")
@click.option(
    "--every",
    type=click.FloatRange(0.2, 60.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Length of a window.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Stop after so long."
)
@json_option
@url_option
@db_option
def energy(
    server: str,
    metrics: str | None,
    running: str | None,
    gpus: tuple[int, ...],
    every: float,
    seconds: float | None,
    as_json: bool,
    url: str | None,
    db: Path | None,
) -> None:
    """Measure what the NVIDIA GPUs of an endpoint take, on the machine they are in.

    The energy of each window divides among the requests that its engine has running (vLLM, SGLang, TGI,
    llama.cpp); calls that were covered whole get their share, in place of any rates. GPUs only: not the rest
    of the machine, nor cooling. Runs until it is stopped; the exit code is 1 if not all windows were stored.

    \b
    Examples:
      agentprof energy --server gpu1.example:8000 --url http://collector.example:8321
      agentprof energy --server 10.0.0.7:8000 --metrics http://127.0.0.1:8000/metrics --gpus 0,1,2,3
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    with (
        closing(RunningRequests(metrics or f"http://{server}/metrics", running)) as load,
        NvmlCounter(gpus) as counter,
        stopped_by_signals() as stopped,
    ):
        load.read()
        delivery = _Delivery(db, url)
        delivery.check()
        sampler = Sampler(server, socket.gethostname(), counter, load, _until(stopped, seconds))
        with closing(delivery):
            for window in sampler.windows(every):
                delivery.add(window)
    told = delivery.told(sampler.left_out)
    if as_json:
        click.echo(to_json({"schema": 1, **told}))
    else:
        idle = fmt.energy({"low": told["idle_j"], "high": told["idle_j"]})
        whole = fmt.energy({"low": told["energy_j"], "high": told["energy_j"]})
        click.echo(
            f"{whole} in {fmt.duration(told['measured_ns'])}, of it {idle} with no request running; "
            f"{fmt.plural(told['windows'], 'window')}, {told['left_out']:,} left out, {told['lost']:,} not taken"
        )
    if told["lost"]:
        raise AgentprofError(
            f"{fmt.plural(told['lost'], 'window')} of {told['windows']:,} could not be stored: {delivery.why}"
        )


class _Delivery:
    """Hands windows to the collector, some at a time and beside the measuring; what it does not take is tried again.

    A database that is slow, or a collector that does not answer, must not keep the engine from being asked.
    """

    def __init__(self, db: Path | None, url: str | None) -> None:
        self._db, self._url = db, url
        self._changing = threading.Lock()
        self._waiting: deque[EnergyWindow] = deque()
        self._windows = self._lost = self._energy_uj = self._idle_uj = self._measured_ns = 0
        self._failing = False
        self.why = ""
        """What hindered it the last time something was not taken."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentprof-energy")
        self._sending: Future[None] | None = None

    def check(self) -> None:
        """Find out whether there is anybody to take them; a database that is not there yet is made later."""
        try:
            with open_source(self._db, self._url, writing=True) as source:
                source.record_energy([])
        except StoreMissing as error:
            raise AgentprofError(f"{error} Start agentprof collect first, or name one with --url.") from error

    def add(self, window: EnergyWindow) -> None:
        """Take a window; what is waiting is sent now and then."""
        self._windows += 1
        self._energy_uj += window.energy_uj
        self._idle_uj += 0 if window.running_high else window.energy_uj
        self._measured_ns += window.end_ns - window.start_ns
        with self._changing:
            self._waiting.append(window)
            self._forget_the_oldest()
        if self._windows % _SEND_EVERY:
            return
        if self._sending is None or self._sending.done():
            self._sent()
            self._sending = self._worker.submit(self._send)

    def close(self) -> None:
        """Send what is left."""
        with self._worker:
            try:
                self._sent()
            finally:
                self._send()

    def _sent(self) -> None:
        """Wait for what is being sent; raises what went wrong there that nobody expected."""
        if self._sending is not None:
            self._sending.result()

    def _send(self) -> None:
        """Send what is waiting; a failure is said once, until it works again."""
        while some := self._next():
            try:
                with open_source(self._db, self._url, writing=True) as source:
                    source.record_energy(some)
            except BaseException as error:
                with self._changing:
                    self._waiting.extendleft(reversed(some))
                    self._forget_the_oldest()
                if not isinstance(error, AgentprofError):
                    raise
                if not self._failing:
                    _log.warning("windows are kept here for now: %s", error)
                self._failing, self.why = True, str(error)
                return
            if self._failing:
                _log.warning("windows are taken again")
            self._failing = False

    def _next(self) -> list[EnergyWindow]:
        with self._changing:
            return [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]

    def _forget_the_oldest(self) -> None:
        while len(self._waiting) > _WAITING:
            self._waiting.popleft()
            self._lost += 1

    def told(self, left_out: int) -> dict[str, Any]:
        """What was measured, in all."""
        return {
            "windows": self._windows,
            "left_out": left_out,
            "lost": self._lost + len(self._waiting),
            "measured_ns": self._measured_ns,
            "energy_j": self._energy_uj / 1e6,
            "idle_j": self._idle_uj / 1e6,
        }


def _until(stopped: threading.Event, seconds: float | None) -> Callable[[float], bool]:
    """Waits; true when it was stopped, or when the time is over."""
    left = [float("inf") if seconds is None else seconds]

    def wait(pause_s: float) -> bool:
        left[0] -= pause_s
        return stopped.wait(pause_s) or left[0] <= 1e-9

    return wait
