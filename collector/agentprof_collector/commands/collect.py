"""`agentprof collect`: a collector that stays."""

from __future__ import annotations

import gc
import logging
import os
import re
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
import msgspec

from agentprof._format import printable
from agentprof.config import load_config
from agentprof.pricing import Pricer
from agentprof_collector.commands.options import db_option
from agentprof_collector.commands.signals import stopped_by_signals
from agentprof_collector.errors import AgentprofError, StoreLocked
from agentprof_collector.settings import TOKEN_VARIABLE, database_path, token
from agentprof_collector.stores import Store, open_store

if TYPE_CHECKING:
    from agentprof_collector.collect.collector import Collector

JAEGER_VARIABLE = "AGENTPROF_JAEGER_URL"
_PORT = click.IntRange(0, 65535)
_UNITS_NS = {"h": 3600 * 10**9, "d": 86400 * 10**9, "w": 7 * 86400 * 10**9}
_SHORTEST_TOKEN = 16
_TOKEN = re.compile(f"[!-~]{{{_SHORTEST_TOKEN},}}")
_LOOK_S = 0.5


def _keep(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", value.strip().lower())
    if match is None:
        raise click.BadParameter(f"expected hours, days or weeks like 12h, 30d or 8w, got {value!r}")
    return int(match[1]) * _UNITS_NS[match[2]]


def _web_address(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "":
        return None
    try:
        target = urlsplit(value)
        if target.scheme in ("http", "https") and target.hostname and (target.port or 0) >= 0:
            return value
    except ValueError:
        pass
    raise click.BadParameter(f"expected an address like http://localhost:16686, got {value!r}")


@click.command()
@db_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=8321, show_default=True, help="Of the page and the API.")
@click.option("--otlp-http-port", type=_PORT, default=4318, show_default=True, help="Of OTLP over HTTP.")
@click.option("--otlp-grpc-port", type=_PORT, default=4317, show_default=True, help="Of OTLP over gRPC.")
@click.option(
    "--phase-spans-to",
    metavar="URL",
    help="Send the phases of calls as spans of their own to an OTLP/HTTP receiver, such as Jaeger's.",
)
@click.option(
    "--jaeger-url",
    envvar=JAEGER_VARIABLE,
    callback=_web_address,
    metavar="URL",
    help=f"Where Jaeger shows the same traces, for links from the page. Also {JAEGER_VARIABLE}.",
)
@click.option(
    "--keep-content",
    is_flag=True,
    help="Keep what was said (prompts, answers, arguments) where spans of other tools hold it.",
)
@click.option("--json", "as_json", is_flag=True, help="Say where it listens as one line of JSON.")
@click.option("--keep", callback=_keep, metavar="TIME", help="Forget tasks older than this: 12h, 30d, 8w.")
def collect(
    db: Path | None,
    host: str,
    port: int,
    otlp_http_port: int,
    otlp_grpc_port: int,
    phase_spans_to: str | None,
    jaeger_url: str | None,
    keep_content: bool,
    keep: int | None,
    as_json: bool,
) -> None:
    """Receive spans over OTLP, add them up into tasks, and show them on a page.

    Runs until it is stopped. What a sender was told is stored stays stored, whatever happens afterwards.
    Port 0 lets the system choose; the ports in use are printed, and written beside the database, where
    agentprof report and agentprof run find them.

    \b
    Listens on this machine only. Any other --host asks for a token in AGENTPROF_TOKEN, which senders show as
    "Authorization: Bearer TOKEN" (OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN) and people as the
    password of the page.

    \b
    Examples:
      agentprof collect
      agentprof collect --keep 30d --phase-spans-to http://127.0.0.1:14318 --jaeger-url http://localhost:16686
    """
    # Servers and gRPC take a third of a second to import: not for the other commands.
    from agentprof_collector.collect.collector import Collector, Options

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    _check_ports(port, otlp_http_port, otlp_grpc_port)
    path = database_path(db)
    options = Options(
        host=host,
        port=port,
        otlp_http_port=otlp_http_port,
        otlp_grpc_port=otlp_grpc_port,
        token=_checked_token(host),
        phase_spans_to=phase_spans_to,
        jaeger_url=jaeger_url,
        keep_content=keep_content,
        keep_ns=keep,
    )
    with stopped_by_signals() as stopping:
        store = _open(path)
        try:
            collector = Collector(store, path, Pricer(load_config(None)), options)
        except BaseException:
            store.close()
            raise
        with collector:
            _say_where(collector, path, as_json=as_json)
            _collect_garbage_seldom()
            while not stopping.wait(_LOOK_S):
                pass  # a signal that comes just before a wait without end would not end it
            click.echo("stopping: what has come is being added up", err=True)


def _say_where(collector: Collector, path: Path, *, as_json: bool) -> None:
    if as_json:
        places = {
            "url": collector.url,
            "otlp_http": collector.otlp_http_url,
            "otlp_grpc": collector.otlp_grpc_target,
            "database": str(path),
            "pid": os.getpid(),
        }
        click.echo(msgspec.json.encode({"schema": 1, **places}))
        return
    click.echo(f"page and API  {collector.url}")
    click.echo(f"OTLP/HTTP     {collector.otlp_http_url}/v1/traces")
    click.echo(f"OTLP/gRPC     {collector.otlp_grpc_target}")
    click.echo(f"database      {printable(str(path))}")


def _checked_token(host: str) -> str | None:
    """The token, if there is one.

    Raises:
        AgentprofError: it is short or cannot stand in a header; or there is none, and others than this machine
            could reach the collector.
    """
    from agentprof_collector.collect.guard import is_loopback

    secret = token()
    if secret is not None and not _TOKEN.fullmatch(secret):
        raise AgentprofError(
            f"{TOKEN_VARIABLE} must be at least {_SHORTEST_TOKEN} printable ASCII characters without spaces, "
            "since senders show it in a header."
        )
    if secret is None and not is_loopback(host):
        raise AgentprofError(
            f"--host {host} can be reached by others: set {TOKEN_VARIABLE} to a secret of at least "
            f"{_SHORTEST_TOKEN} characters, or leave --host out."
        )
    return secret


def _check_ports(port: int, otlp_http_port: int, otlp_grpc_port: int) -> None:
    options = {"--port": port, "--otlp-http-port": otlp_http_port, "--otlp-grpc-port": otlp_grpc_port}
    for (one, number), (other, same) in combinations(options.items(), 2):
        if number and number == same:
            raise click.UsageError(
                f"{one} and {other} name the same port {number}: choose another for one of them."
            )


def _open(path: Path) -> Store:
    from agentprof_collector.collect.lockfile import read_lock

    try:
        return open_store(path)
    except StoreLocked as locked:
        lock = read_lock(path)
        if lock is not None and lock.pid == locked.pid:
            raise AgentprofError(
                f"a collector already runs on {path}: {lock.url} (process {lock.pid}). "
                "Use it, stop it, or give this one another file with --db."
            ) from locked
        raise


def _collect_garbage_seldom() -> None:
    """What is loaded by now stays, and spans go when nothing holds them: looking through all of it again and
    again takes a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
