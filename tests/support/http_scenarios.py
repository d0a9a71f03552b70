"""What can become of a request to a model made without an SDK, and what its span must say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Queue
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.recordings import Recordings

from agentprof import attributes
from agentprof.testing import Captured, capture

BODY = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Say hello, secret-prompt."}]}
PATH = "/chat/completions"
PATIENCE_S = 0.5
"""How long clients of a scenario wait until a timeout, and until they are cancelled: the server has the request."""
RUNS = 40
"""A busy machine delays one of the two clocks now and then: a stream counts by its best run."""
LIMIT_S = 0.005
_TEXT = json.dumps(CHAT).encode()


@dataclass
class Seen:
    """What a program got to see of one request."""

    types: list[str] = field(default_factory=list)
    status: int | None = None
    body: list[Any] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    """The error and what it was raised from or while handling, each with its text."""

    def note(self, *things: object) -> None:
        """Note the exact types of some objects."""
        self.types += [f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in things]

    def note_error(self, error: BaseException | None) -> None:
        """Note an error and its chain."""
        while error is not None:
            self.errors.append((type(error).__qualname__, re.sub("[0-9a-f]{10,}", "#", str(error))))
            error = error.__cause__ or error.__context__


Drive = Callable[..., Seen]
"""Makes one request: `drive(url, stream=, timeout=, take=, cancel=)`.

`take`: leave a stream after so many lines; `cancel`: cancel the task once so many lines came (0: at once).
"""


@dataclass(frozen=True)
class Scenario:
    """One thing that can happen."""

    name: str
    reply: Callable[[], Reply]
    stream: bool
    says: dict[str, Any]
    """Attributes of the span; None: absent."""
    fails: bool = False
    take: int | None = None
    cancel: int | None = None
    timeout: float = 5.0


_TOKENS = {attributes.INPUT_TOKENS: 100, attributes.OUTPUT_TOKENS: 6, attributes.FINISH_REASONS: ("stop",)}
_NO_TOKENS = {attributes.INPUT_TOKENS: None, attributes.FIRST_TOKEN: None, attributes.COST: None}


def _failure(status: str) -> dict[str, Any]:
    return {attributes.ATTEMPT_STATUS: (status,), **_NO_TOKENS}


def _refusal(status: int, stream: bool) -> Scenario:
    return Scenario(
        f"{status} {'stream' if stream else 'plain'}",
        lambda: Reply.json({"error": {"message": "secret-error", "code": "bad"}}, status),
        stream,
        _failure(str(status)) | {attributes.ERROR_TYPE: str(status), attributes.STREAM_END: None},
        fails=True,
    )


def _stalled() -> Reply:
    return Reply.stream([*STREAM[:2], 4 * PATIENCE_S, *STREAM[2:]])


_LATE = Reply(_TEXT, headers={"content-type": "application/json"}, wait_s=4 * PATIENCE_S)

SCENARIOS = (
    Scenario(
        "success plain",
        lambda: Reply.json(CHAT),
        False,
        _TOKENS | {attributes.STREAM_END: None, attributes.ATTEMPT_STATUS: None, attributes.ERROR_TYPE: None},
    ),
    Scenario(
        "success stream",
        Reply.stream,
        True,
        _TOKENS | {attributes.STREAM_END: "complete", attributes.ATTEMPT_STATUS: None},
    ),
    *(_refusal(status, stream) for status in (400, 429, 500) for stream in (False, True)),
    Scenario("timeout plain", lambda: _LATE, False, _failure("timeout"), fails=True, timeout=PATIENCE_S),
    Scenario("timeout headers", lambda: _LATE, True, _failure("timeout"), fails=True, timeout=PATIENCE_S),
    Scenario(
        "timeout stream",
        _stalled,
        True,
        {attributes.STREAM_END: "error", attributes.ATTEMPT_STATUS: None},
        fails=True,
        timeout=PATIENCE_S,
    ),
    Scenario(
        "cut plain",
        lambda: Reply([_TEXT[:40]], headers={"content-type": "application/json"}, framing="cut"),
        False,
        _failure("cut"),
        fails=True,
    ),
    Scenario(
        "cut stream",
        lambda: Reply.stream(STREAM[:3], framing="cut"),
        True,
        {attributes.STREAM_END: "error", attributes.ATTEMPT_STATUS: None, attributes.FINISH_REASONS: None},
        fails=True,
    ),
    Scenario(
        "short stream",
        lambda: Reply.stream(STREAM[:3], framing="close"),
        True,
        {attributes.STREAM_END: "truncated", attributes.ATTEMPT_STATUS: None},
    ),
    Scenario(
        "left",
        _stalled,
        True,
        {attributes.STREAM_END: "abandoned", attributes.ATTEMPT_STATUS: None},
        take=3,
    ),
    Scenario("cancel plain", lambda: _LATE, False, _failure("cancelled"), fails=True, cancel=0),
    Scenario(
        "cancel stream",
        _stalled,
        True,
        {attributes.STREAM_END: "cancelled", attributes.ATTEMPT_STATUS: None},
        fails=True,
        cancel=3,
    ),
)


def check(drive: Drive, server: ModelServer, scenario: Scenario) -> None:
    """One scenario with and without instrumentation: the program sees the same, and the span says what was."""
    options = {"stream": scenario.stream, "timeout": scenario.timeout}
    options |= {"take": scenario.take, "cancel": scenario.cancel}
    server.replies = [scenario.reply()]
    bare = drive(server.url + PATH, **options)
    with capture() as captured:
        ours = drive(server.url + PATH, **options)
    with capture(propagate_to=()):
        unpropagated = drive(server.url + PATH, **options)
    assert ours == bare == unpropagated
    assert bool(bare.errors) == (scenario.fails and not (bare.status or 0) >= 400)

    sent_bare, sent_ours, sent_unpropagated = server.sent
    (span,) = captured.spans
    assert span.context is not None
    assert (
        sent_ours.headers.pop("traceparent")
        == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"
    )
    assert sent_bare == sent_ours == sent_unpropagated

    said = dict(span.attributes or {})
    assert said[attributes.ATTEMPTS] == 1
    assert said[attributes.REQUEST_MODEL] == "gpt-4o-mini"
    assert said[attributes.PHASE_SOURCE + "connect"] == "observed"
    assert {name: said.get(name) for name in scenario.says} == scenario.says
    assert (span.status.status_code is StatusCode.ERROR) == scenario.fails
    assert (attributes.ERROR_TYPE in said) == scenario.fails
    assert "secret" not in span.to_json()


def check_plain_call(server: ModelServer, captured: Captured, task_id: str) -> None:
    """The only call of a task, one whole chat, says the same as one of an SDK, and when the first byte came."""
    call, root = captured.spans
    about_request = (attributes.INPUT_BYTES, "agentprof.fingerprint.")
    said = {
        name: value for name, value in (call.attributes or {}).items() if not name.startswith(about_request)
    }
    assert call.name == "chat gpt-4o-mini"
    assert call.kind is SpanKind.CLIENT
    assert call.parent is not None
    assert root.context is not None
    assert call.parent.span_id == root.context.span_id
    assert 0 < said.pop(attributes.PHASE + "connect") < said.pop(attributes.FIRST_BYTE) < 1
    assert said == {
        attributes.TASK_ID: task_id,
        attributes.OPERATION: "chat",
        attributes.REQUEST_MODEL: "gpt-4o-mini",
        attributes.SERVER_ADDRESS: "127.0.0.1",
        attributes.SERVER_PORT: int(server.url.rpartition(":")[2].removesuffix("/v1")),
        attributes.RESPONSE_ID: "chatcmpl-1",
        attributes.RESPONSE_MODEL: "gpt-4o-mini-2024-07-18",
        attributes.FINISH_REASONS: ("stop",),
        attributes.INPUT_TOKENS: 100,
        attributes.OUTPUT_TOKENS: 6,
        attributes.ATTEMPTS: 1,
        attributes.PHASE_SOURCE + "connect": "observed",
    }


def check_first_token(drive: Drive, recordings: Recordings) -> None:
    """The first token of recorded streams is within 5 ms of the server's own stamps, in one run at least."""
    with recordings.served(first_ms=30, delay_ms=3) as server, capture() as captured:
        rows: Queue[dict[str, Any]] = Queue()
        server.srv.emit = rows.put  # called once an answer is sent
        for name, token in _streams(recordings):
            errors_s = []
            while len(errors_s) < RUNS and min(errors_s, default=LIMIT_S) >= LIMIT_S:
                captured.spans.clear()
                drive(server.url(name, "/v1") + PATH, stream=True, timeout=20, take=None, cancel=None)
                served = rows.get(timeout=30)
                (span,) = captured.spans
                assert span.start_time is not None
                first_token: Any = (span.attributes or {})[attributes.FIRST_TOKEN]
                at_s = span.start_time / 1e9 + first_token - served["t_request"]
                errors_s.append(abs(at_s - served["t_events"][token]))
            assert min(errors_s) < LIMIT_S, (name, errors_s)


def _streams(recordings: Recordings) -> list[tuple[str, int]]:
    """Some recorded chat streams, each with the position of the event that has its first token."""
    names = sorted(
        name
        for name, truth in recordings.truths.items()
        if truth["api"] == "openai.chat"
        and truth["provider"] == "openai"
        and truth["streaming"]
        and (truth["n_content_chunks"] or 0) > 3
        and not truth["n_reasoning_chunks"]
        and not truth["n_tool_chunks"]
        and truth["n_events"] < 40
    )
    found = []
    for name in names[:5]:
        response = recordings.recorded(name)["response"]
        pieces = recordings.replay.pieces(response["body"].encode(), response["headers"]["content-type"])
        token = next(at for at, piece in enumerate(pieces) if re.search(rb'"content": ?"[^"]', piece))
        found.append((name, token))
    assert len(found) == 5
    return found
