"""The collector as a whole: what it is made of, and in which order that starts and ends."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof.pricing import Pricer
from agentprof.summary import TaskSummary
from agentprof_collector import api, page
from agentprof_collector.closing import Closing
from agentprof_collector.collect import meters as figures
from agentprof_collector.collect.adder import Adder
from agentprof_collector.collect.guard import HEALTH_PATH, Guard
from agentprof_collector.collect.lockfile import LockFile, remove_lock, write_lock
from agentprof_collector.collect.meters import Meters
from agentprof_collector.collect.retention import Retention
from agentprof_collector.collect.servers import Servers
from agentprof_collector.collect.sockets import listening, url_of
from agentprof_collector.collect.writer import PassOn, Received, Writer
from agentprof_collector.errors import AgentprofError, StoreError, StoreUnusable
from agentprof_collector.phase_export import PhaseExporter
from agentprof_collector.pipeline import Intake
from agentprof_collector.receive import asgi
from agentprof_collector.receive.exchange import Answer, Budget, Refused, Request
from agentprof_collector.receive.read import Contents
from agentprof_collector.recompute import AddedUp
from agentprof_collector.stores import Store

if TYPE_CHECKING:
    from agentprof_collector.receive.grpc import GrpcReceiver

WAITING_BYTES: Final = 256 * 1024 * 1024
"""Requests in memory; what would exceed it is put off."""
_GRACE_S: Final = 10.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector is asked to be."""

    host: str = "127.0.0.1"
    port: int = 0
    """Of the page and the API; 0: the system chooses, here and below."""
    otlp_http_port: int = 0
    otlp_grpc_port: int | None = None
    """None: no gRPC."""
    token: str | None = None
    """Asked of everyone who speaks to the collector; None: of nobody."""
    phase_spans_to: str | None = None
    """OTLP/HTTP address that gets the phases of calls as spans."""
    jaeger_url: str | None = None
    keep_content: bool = False
    """What was said is kept of spans of other tools whose attributes hold it."""
    keep_ns: int | None = None
    """Tasks that ended longer ago are forgotten; None: kept forever."""


class Hooks(NamedTuple):
    """Who else takes note of what a collector does, in its threads. None of them may raise but `pass_on`."""

    pass_on: PassOn = lambda request: None
    """Gets each request before it is stored; it may refuse it (`Refused`)."""
    received: Received = lambda spans: None
    """Told of spans as they came, when they are stored."""
    added_up: AddedUp = lambda summary, spans: None
    """Told of each task that was added up, with its spans."""


class Collector(Closing):
    """Receives, stores, adds up and answers from `start` to `close`; then all that came is stored and added up.

    Args:
        store: its only user is this collector, until it is closed by it.
        database: the file of the store, beside which the lock file is written; None: no file.
        pricer: prices calls that nobody has priced yet.
        options: see there.
        hooks: see there.

    Raises:
        AgentprofError: a port cannot be had. The store stays open.
    """

    def __init__(
        self,
        store: Store,
        database: Path | None,
        pricer: Pricer,
        options: Options,
        hooks: Hooks = Hooks(),  # noqa: B008 (it cannot change)
    ) -> None:
        self.store = store
        self.meters = Meters()
        self._database = database
        self._options = options
        self._hooks = hooks
        self._stopped = False
        self._budget = Budget(WAITING_BYTES)
        with contextlib.ExitStack() as opened:
            pages = opened.enter_context(listening(options.host, options.port, "--port"))
            otlp = opened.enter_context(listening(options.host, options.otlp_http_port, "--otlp-http-port"))
            self.url, self.otlp_http_url = url_of(pages), url_of(otlp)
            self._grpc = self._grpc_receiver()
            if self._grpc is not None:
                opened.callback(self._grpc.close, 0.0)
            self._phases = _phase_exporter(options.phase_spans_to)
            if self._phases is not None:
                opened.callback(self._phases.close, 0.0)
            opened.pop_all()
        self._servers = Servers(
            [(pages, self._guarded(self._pages())), (otlp, self._guarded(self._receiving()))]
        )
        self._adder = Adder(store, self.meters, self._added_up)
        self._writer = Writer(
            Intake(store, pricer, keep_content=options.keep_content),
            self._budget,
            self._arrived,
            self.meters,
            pass_on=hooks.pass_on,
            received=hooks.received,
            with_content=options.keep_content,
            last_arrival_ns=store.added_up_to(),
        )
        self._retention = self._start_retention()
        self._watch()
        # The price table takes some tenths of a second to load: before the first span needs it.
        threading.Thread(target=lambda: pricer.table_version, name="agentprof-prices", daemon=True).start()

    @property
    def otlp_grpc_target(self) -> str | None:
        """`host:port` of the gRPC receiver, if there is one."""
        return None if self._grpc is None else self._grpc.target

    @property
    def jaeger_url(self) -> str | None:
        """See `Served`."""
        return self._options.jaeger_url.rstrip("/") if self._options.jaeger_url else None

    def start(self) -> None:
        """Take requests, and say beside the database where.

        Raises:
            StoreUnusable: no file can be written there.
        """
        self._write_lock()
        self._servers.start()
        if self._grpc is not None:
            self._grpc.start()

    def up_to_date(self, task_ids: Collection[str] | None = None) -> None:
        """See `Served`."""
        self._adder.up_to_date(task_ids)

    def record_outcome(self, fact: OutcomeFact) -> None:
        """See `Served`.

        Raises:
            StoreError: it cannot be stored now.
        """
        try:
            self._writer.keep(Contents(outcomes=[fact])).result()
        except Refused as refused:
            raise StoreError(str(refused)) from refused
        self._adder.up_to_date([fact.task_id])

    def record_energy(self, windows: Sequence[EnergyWindow]) -> None:
        """See `Served`.

        Raises:
            StoreError: they cannot be stored now.
        """
        try:
            self._writer.keep(Contents(windows=list(windows))).result()
        except Refused as refused:
            raise StoreError(str(refused)) from refused

    def stop(self) -> None:
        """Take no more requests, answer what is waiting, and add up what is stored."""
        if self._stopped:
            return
        self._stopped = True
        if self._grpc is not None:
            self._grpc.close(_GRACE_S)
        self._servers.close()
        self._writer.close()
        if self._retention is not None:
            self._retention.close()
        self._adder.close()
        if self._phases is not None:
            self._phases.close()
        if self._database is not None:
            remove_lock(self._database, os.getpid())

    def close(self) -> None:
        """Stop, and release the database."""
        self.stop()
        self.store.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def _grpc_receiver(self) -> GrpcReceiver | None:
        options = self._options
        if options.otlp_grpc_port is None:
            return None
        if options.otlp_grpc_port:
            # Who has a taken port is known here; gRPC only says that it cannot listen.
            listening(options.host, options.otlp_grpc_port, "--otlp-grpc-port").close()
        # It takes a fifth of a second to import, and not everyone needs it.
        from agentprof_collector.receive.grpc import GrpcReceiver

        return GrpcReceiver(
            options.host, options.otlp_grpc_port, self._submit, self._budget, self._note, options.token
        )

    def _start_retention(self) -> Retention | None:
        if self._options.keep_ns is None:
            return None
        return Retention(self._adder.forget, self._options.keep_ns, self.meters.spans_forgotten.inc)

    def submit(self, request: Request) -> Future[Answer]:
        """Take a request as if it had come from outside; the answer, or `Refused`."""
        self._budget.take(len(request.body))
        return self._submit(request)

    def _submit(self, request: Request) -> Future[Answer]:
        return self._writer.submit(request)

    def _note(self, transport: str, signal: str, answer: str) -> None:
        self.meters.requests.labels(transport, signal, answer).inc()

    def _arrived(
        self,
        spans: Sequence[Span],
        outcomes: Sequence[OutcomeFact],
        windows: Sequence[EnergyWindow],
        arrived_ns: int,
    ) -> None:
        if spans:
            self._adder.arrived(spans, arrived_ns)
        if windows:
            self._adder.measured([(window.start_ns, window.end_ns) for window in windows], arrived_ns)
        if outcomes:
            self._adder.concerns([fact.task_id for fact in outcomes], arrived_ns)

    def _added_up(self, summary: TaskSummary, spans: Sequence[Span]) -> None:
        if self._phases is not None and summary.complete and summary.parent_task_id is None:
            self._phases.offer(summary.task_id, spans)
        self._hooks.added_up(summary, spans)

    def _guarded(self, application: Starlette) -> Guard:
        return Guard(application, token=self._options.token, hosts=(self._options.host,))

    def _pages(self) -> Starlette:
        own = [
            Route(HEALTH_PATH, self._health),
            Route("/metrics", self._metrics),
            *asgi.routes(self._submit, self._budget, self._note),
        ]
        return Starlette(routes=[*own, *api.routes(self), *page.routes(self)])

    def _receiving(self) -> Starlette:
        routes = [Route(HEALTH_PATH, self._health), *asgi.routes(self._submit, self._budget, self._note)]
        return Starlette(routes=routes, exception_handlers={404: asgi.not_found})

    async def _health(self, request: HttpRequest) -> Response:
        """200 while spans are taken and added up, else 503 with what is wrong."""
        troubles = []
        if self._writer.failing is not None:
            troubles.append(f"spans cannot be stored: {self._writer.failing}")
        if not self._writer.is_alive or not self._adder.is_alive:
            troubles.append("a part of the collector has ended; restart it")
        return JSONResponse(
            {"status": "failing" if troubles else "ok", "troubles": troubles}, 503 if troubles else 200
        )

    async def _metrics(self, request: HttpRequest) -> Response:
        return Response(self.meters.text(), media_type=figures.CONTENT_TYPE)

    def _watch(self) -> None:
        meters = self.meters
        meters.watch(
            "waiting_bytes", "Bytes of requests that are read or wait.", lambda: self._budget.taken_bytes
        )
        meters.watch("waiting_requests", "Requests that wait to be stored.", lambda: self._writer.waiting)
        meters.watch("traces_dirty", "Traces that wait to be added up.", lambda: self._adder.dirty)
        if (database := self._database) is not None:
            meters.watch("database_bytes", "Size of the database file.", lambda: _size_bytes(database))
        meters.watch("http_malformed", "Requests that were no HTTP.", lambda: self._servers.malformed)

        if (phases := self._phases) is not None:
            meters.watch("phase_spans_sent", "Phase spans that were taken.", lambda: phases.sent)
            meters.watch(
                "phase_tasks_dropped",
                "Tasks whose phases were not, or not all, sent.",
                lambda: phases.dropped,
            )

    def _write_lock(self) -> None:
        if self._database is None:
            return
        lock = LockFile(
            url=self.url, pid=os.getpid(), otlp_http=self.otlp_http_url, otlp_grpc=self.otlp_grpc_target
        )
        try:
            write_lock(self._database, lock)
        except OSError as error:
            raise StoreUnusable(
                self._database, f"no file can be written beside it ({error.strerror})"
            ) from error


def _phase_exporter(url: str | None) -> PhaseExporter | None:
    if url is None:
        return None
    try:
        return PhaseExporter(url)
    except ValueError as error:
        raise AgentprofError(f"--phase-spans-to: {error}") from error


def _size_bytes(file: Path) -> float:
    """Not a number where it cannot be told."""
    try:
        return file.stat().st_size
    except OSError:
        return math.nan
