"""Results of batches: each line of a result file is a call, made elsewhere and earlier, seen when the file is read.

Its span has no length, as nothing is known of its time; its tier is `batch`, by which it is priced. A file that
is read again in the same process adds nothing.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from typing import Any, Final

import msgspec

from agentprof._calls import Call
from agentprof._runtime import Runtime
from agentprof.dialects import Dialect, dialect_of

_CONTENT: Final = re.compile(r"/files/([^/?]+)/content(?:\?|$)")
_FILES: Final = 10_000
"""Result files that are remembered."""
_PAUSE_EVERY: Final = 4096
_LONGEST_PAUSE_S: Final = 2.0
"""How long the export may hold up the reading of a very large file, so that its queue does not overflow."""

_PATHS: Final = {
    "chat.completion": "/chat/completions",
    "text_completion": "/completions",
    "response": "/responses",
    "list": "/embeddings",
}
"""Where an answer comes from that names itself so."""


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Result(msgspec.Struct):
    custom_id: str
    response: _Response | None = None


class _Body(msgspec.Struct):
    object: str | None = None
    model: str | None = None
    results: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


_read_result: Final = msgspec.json.Decoder(_Result).decode
_read_body: Final = msgspec.json.Decoder(_Body).decode

_seen: OrderedDict[tuple[str, str], int] = OrderedDict()
"""Lines already read of a file, by host and file."""


def file_of(url: str) -> str | None:
    """The file whose content is asked for, if it is that what is asked for."""
    found = _CONTENT.search(url)
    return found[1] if found is not None else None


def read(
    runtime: Runtime, file: str, content: bytes, host: str, port: int | None, provider: str | None
) -> None:
    """Record the calls of a file, if it holds results of a batch."""
    lines = io.BytesIO(content)
    if _result_in(next(lines, b"")) is None:
        return
    before = note_read(host, file, content.count(b"\n") + (not content.endswith(b"\n")))
    lines.seek(0)
    for number, line in enumerate(lines, 1):
        result = _result_in(line) if number > before else None
        # A request that expired or was cancelled in its batch never reached a model.
        if result is not None and result.response is not None:
            _record(runtime, result.response, host, port, provider)
            if number % _PAUSE_EVERY == 0:
                _let_the_export_catch_up()


def note_read(host: str, file: str, lines: int) -> int:
    """Remember a file with its number of lines; gives how many of them were read before."""
    before = _seen.pop((host, file), 0)
    _seen[host, file] = max(before, lines)
    while len(_seen) > _FILES:
        _seen.popitem(last=False)
    return before


def _result_in(line: bytes) -> _Result | None:
    try:
        return _read_result(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _record(runtime: Runtime, response: _Response, host: str, port: int | None, provider: str | None) -> None:
    try:
        body = _read_body(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        body = _Body()
    dialect = _dialect_of(body)
    if dialect is None:
        return
    call = Call(runtime, dialect, body.model, False, host, port, provider)
    call.leave()
    call.result_of_batch(response.status_code, bytes(response.body))


def _dialect_of(body: _Body) -> Dialect | None:
    """By what the answer is called; moderations and images have no such name."""
    path: Any = _PATHS.get(body.object or "")
    if path is None:
        path = "/moderations" if body.results else "/images/generations" if body.data else "/chat/completions"
    return dialect_of(path)


def _let_the_export_catch_up() -> None:
    from agentprof import _export, _worker

    if _export.stats().waiting > _worker.QUEUE // 2:
        _export.flush(_LONGEST_PAUSE_S)
