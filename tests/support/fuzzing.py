"""Mutated requests for everything a collector answers, and what has to hold of the answers.

In process: the readers, the normaliser, prices and the adding up. Over the wire: every endpoint, also with
heads and framing that no client sends.
"""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from urllib.parse import quote

import grpc
from support.collecting import GRPC_METHOD, PRICER
from support.mutated import Mutator, Seeds

from agentprof.model import OutcomeFact, Span
from agentprof_collector.errors import TaskNotAddedUp
from agentprof_collector.pipeline import Intake
from agentprof_collector.receive.exchange import Refused, Request
from agentprof_collector.receive.read import read
from agentprof_collector.recompute import recompute
from agentprof_collector.stores import Store

PATIENCE_S = 30.0
ADDED_UP_EVERY = 500
"""Requests whose spans are stored and added up together."""
STANDARD = frozenset(
    {200, 204, 303, 304, 400, 401, 403, 404, 405, 406, 408, 411, 413, 414, 415, 422, 431, 503}
)
_GRPC_STANDARD = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_TYPES = {"protobuf": "application/x-protobuf", "json": "application/json"}
_METHODS = tuple(GRPC_METHOD.format(name, name.title()) for name in ("trace", "logs", "metrics"))
_TASK = "4711"
_QUERIES = (
    "name",
    "outcome",
    "label",
    "service",
    "since",
    "until",
    "q",
    "group_by",
    "limit",
    "after",
    "by",
    "task",
)
_VALUES = ("success", "k=v", "24h", "2026-11-30T12:00:00Z", "name", "label.k", "10", "tool", _TASK, "n")


def fuzz_readers(seeds: Seeds, rng: random.Random, count: int, store: Store) -> Counter[str]:
    """Requests through all that happens to them but the servers; how they ended.

    Raises:
        AssertionError: one of them broke something; the request is in the message.
    """
    mutator = Mutator(seeds, rng)
    intake = Intake(store, PRICER, keep_content=True)
    ended: Counter[str] = Counter()
    group: list[tuple[Request, list[Span], list[OutcomeFact]]] = []
    for number in range(1, count + 1):
        request = mutator.request()
        try:
            contents = read(request, with_content=number % 4 == 0)
        except Refused as refused:
            assert refused.status in STANDARD, request  # noqa: PT017
            ended[str(refused.status)] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} while reading {request}") from error
        else:
            understood = intake.understand(contents.spans)
            assert understood.skipped == 0, f"a span of {request} could not be understood"
            ended["200 partial" if contents.skipped else "200"] += 1
            group.append((request, understood.spans, contents.outcomes))
        if number % ADDED_UP_EVERY == 0 or number == count:
            _add_up(store, intake, group)
            group.clear()
    return ended


def _add_up(
    store: Store, intake: Intake, group: Sequence[tuple[Request, list[Span], list[OutcomeFact]]]
) -> None:
    """Store together what was read, as a collector does, and add it up."""
    spans = [span for _, found, _ in group for span in found]
    try:
        intake.keep(spans, [fact for _, _, facts in group for fact in facts])
    except Exception:
        for request, found, facts in group:
            try:
                intake.keep(found, facts)
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} while storing {request}") from error
        raise
    recompute(store, {span.trace_id for span in spans}, _not_added_up)
    store.forget(2**63 - 1)


def _not_added_up(error: TaskNotAddedUp) -> None:
    raise AssertionError(str(error)) from error.__cause__


class Wire:
    """Every endpoint of a collector that runs; each has its share of the requests.

    Args:
        seeds: what export requests are made from.
        rng: decides everything.
        page: port of page and API.
        otlp_http: port.
        otlp_grpc: port.
    """

    def __init__(self, seeds: Seeds, rng: random.Random, page: int, otlp_http: int, otlp_grpc: int) -> None:
        self._mutator = Mutator(seeds, rng)
        self._rng = rng
        self._page = page
        self._otlp = otlp_http
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{otlp_grpc}", options)
        self._exports = [self._channel.unary_unary(method) for method in (*_METHODS, "/a/b")]
        self.ended: Counter[str] = Counter()

    def send(self, count: int) -> Counter[str]:
        """So many requests, one after the other; how they ended.

        Raises:
            AssertionError: an answer is none of the standard ones, or does not come.
        """
        shares: tuple[tuple[Callable[[], str], int], ...] = (
            (self._export_http, 8),
            (self._export_grpc, 4),
            (self._ask, 5),
            (self._judge, 1),
            (self._frame, 2),
        )
        kinds, weights = zip(*shares, strict=True)
        for _ in range(count):
            kind: Callable[[], str] = self._rng.choices(kinds, weights)[0]
            self.ended[f"{kind.__name__.strip('_')} {kind()}"] += 1
        return self.ended

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _export_http(self) -> str:
        request = self._mutator.request()
        rng = self._rng
        headers = {"content-type": _TYPES[request.media], "content-encoding": request.encoding}
        if rng.random() < 0.1:
            headers[rng.choice(list(headers))] = rng.choice(
                ("", "text/plain", "br", "application/json; x", "gzip")
            )
        port = rng.choice((self._otlp, self._otlp, self._page))
        return self._exchange(port, "POST", f"/v1/{request.signal}", headers, request.body)

    def _export_grpc(self) -> str:
        request = self._mutator.request("protobuf")
        body = request.body if self._rng.random() < 0.9 else self._rng.randbytes(50)
        try:
            self._rng.choice(self._exports)(
                body, timeout=PATIENCE_S, compression=self._rng.choice((None, grpc.Compression.Gzip))
            )
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()  # type: ignore[attr-defined]
            assert code in _GRPC_STANDARD, f"{code} {error.details()} for {body!r}"  # type: ignore[attr-defined]  # noqa: PT017
            return code.name
        return "OK"

    def _ask(self) -> str:
        """Of the API and the page: paths and queries of which something is changed."""
        rng, mutator = self._rng, self._mutator
        task = rng.choice(
            (_TASK, "trace:5b8efff798038103d269b633813fc60c", "47", mutator.text(), mutator.text())
        )
        path = rng.choice(
            (
                "/api/v1/tasks",
                f"/api/v1/tasks/{_quoted(task, rng)}",
                f"/api/v1/tasks/{_quoted(task, rng)}/waterfall",
                f"/api/v1/tasks/{_quoted(task, rng)}/content",
                "/api/v1/calls",
                "/api/v1/parts",
                "/api/v1/openapi.json",
                f"/api/{_quoted(mutator.text(), rng)}",
                "/",
                f"/tasks/{_quoted(task, rng)}",
                f"/static/{rng.choice(('page.css', 'page.js', '../pages.py', _quoted(mutator.text(), rng)))}",
                "/healthz",
                "/metrics",
            )
        )
        given = [
            f"{rng.choice((*_QUERIES, mutator.text()[:20]))}={rng.choice((*_VALUES, mutator.text()))}"
            for _ in range(rng.choice((0, 0, 1, 2, 3)))
        ]
        query = "?" + "&".join(_quoted(pair, rng) for pair in given) if given else ""
        method = rng.choices(("GET", "HEAD", "POST", "DELETE", "OPTIONS"), (20, 2, 1, 1, 1))[0]
        return self._exchange(self._page, method, path + query, {}, b"")

    def _judge(self) -> str:
        """Outcomes, of which something is changed."""
        rng, mutator = self._rng, self._mutator
        outcome = rng.choice(("success", "failure", mutator.text()))
        score = rng.choice((0.5, mutator.text(), 1e400))
        body = json.dumps({"outcome": outcome, "score": score}).encode()
        if rng.random() < 0.5:
            body = mutator.bytes(body)
        task = rng.choice((_TASK, mutator.text()))
        headers = {
            "content-type": rng.choice(
                ("application/json", "application/x-www-form-urlencoded", "text/plain")
            )
        }
        return self._exchange(
            self._page, "POST", f"/api/v1/tasks/{_quoted(task, rng)}/outcome", headers, body
        )

    def _frame(self) -> str:
        """A whole request as bytes, of which something is changed."""
        request = self._mutator.request()
        head = (
            f"POST /v1/{request.signal} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: {_TYPES[request.media]}\r\nContent-Encoding: {request.encoding}\r\n"
        ).encode()
        if self._rng.random() < 0.5:
            body = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
                len(request.body),
                request.body,
            )
        else:
            body = b"Content-Length: %d\r\n\r\n%s" % (len(request.body), request.body)
        if self._rng.random() < 0.7:
            head = self._mutator.bytes(head)
        if self._rng.random() < 0.3:
            body = self._mutator.bytes(body)
        return self._bytes(self._rng.choice((self._otlp, self._page)), head + body)

    def _exchange(self, port: int, method: str, target: str, headers: dict[str, str], body: bytes) -> str:
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        return self._bytes(port, "\r\n".join(lines).encode() + body)

    def _bytes(self, port: int, sent: bytes) -> str:
        """The status of the answer; no answer only to what is not a whole request."""
        got = b""
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 20):
                    got += piece
            except (ConnectionResetError, BrokenPipeError):
                pass
            except TimeoutError:
                raise AssertionError(f"no answer to {sent!r}") from None
        if not got:
            return "none"
        assert got.startswith(b"HTTP/1.1 "), f"{got[:100]!r} to {sent!r}"
        status = int(got[9:12])
        assert status in STANDARD, f"{got[:500]!r} to {sent!r}"
        return str(status)


def _quoted(text: str, rng: random.Random) -> str:
    """As it must be, mostly."""
    safe = rng.choice(("", "/", "=&?", "%"))
    return quote(text.encode("utf-8", "surrogatepass"), safe=safe)


def figures(ended: Counter[str]) -> str:
    """For people."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(ended.items()))
