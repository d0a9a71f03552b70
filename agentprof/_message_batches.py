"""Results of batches of Anthropic messages: each line is a call, seen as the program reads it.

As with results of other batches the span of such a call has no length, its tier is `batch`, and what is read
again in the same process adds nothing.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from agentprof import _batches, _streams
from agentprof._calls import Call
from agentprof._runtime import Runtime
from agentprof.dialects import dialect_of
from agentprof.dialects._json_frames import Lines
from agentprof.dialects._shape import Shape

_RESULTS: Final = re.compile(r"/v1/messages/batches/([^/?]+)/results(?:\?|$)")
_REFUSED: Final = 400
"""As what a request counts that was refused in its batch: the line has no status."""


class _Message(msgspec.Struct):
    model: str | None = None


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Line(msgspec.Struct):
    result: _Result


_read_line: Final = msgspec.json.Decoder(_Line).decode
_read_message: Final = msgspec.json.Decoder(_Message).decode


def watch(
    runtime: Runtime, url: str, response: Any, host: str, port: int | None, provider: str | None
) -> None:
    """Record the calls of a response that the program is about to read, if it brings results of a batch."""
    found = _RESULTS.search(url)
    if found is not None:
        results = _Results(runtime, found[1], (host, port, provider), _streams.decoder_for(response))
        _streams.attach(response, results, results)


class _Results:
    """Takes in what arrives, and is told how the reading ended."""

    hides_usage = False

    def __init__(
        self, runtime: Runtime, batch: str, server: tuple[str, int | None, str | None], decoder: Any | None
    ) -> None:
        self._runtime = runtime
        self._batch = batch
        self._server = server
        self._decoder = decoder
        self.fits: Shape | None = None
        self.token_stamps: list[int] = []
        self._lines = Lines()
        self._number = 0
        self._before = _batches.note_read(server[0], batch, 0)

    def other(self, raw: bytes, now: int) -> None:
        """Bytes came."""
        self._record(self._lines.feed(raw if self._decoder is None else b"".join(self._decoder.decode(raw))))

    def waited(self, asked: int, late: int, now: int) -> None:
        """How fast the program reads is of no interest."""

    def stream_over(self, now: int) -> None:
        """The last line may have no end."""
        self._record(self._lines.finish())

    def stream_left(self) -> None:
        """Lines that were not read are no calls of this program."""

    def stream_failed(self, error: BaseException, now: int) -> None:
        """Neither are those that did not arrive."""

    def _record(self, lines: list[bytes]) -> None:
        for line in lines:
            self._number += 1
            if self._number > self._before:
                self._record_line(line)
                _batches.note_read(self._server[0], self._batch, self._number)

    def _record_line(self, line: bytes) -> None:
        try:
            result = _read_line(line).result
            succeeded = result.type == "succeeded"
            body = bytes(result.message if succeeded else result.error)
            model = _read_message(body).model if succeeded else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        dialect = dialect_of("/v1/messages")
        # What expired or was cancelled never reached a model.
        if dialect is None or not body:
            return
        call = Call(self._runtime, dialect, model, False, *self._server)
        call.leave()
        call.result_of_batch(200 if succeeded else _REFUSED, body)
