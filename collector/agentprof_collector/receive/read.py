"""A request of any signal → what of it is kept; the decoders by signal and encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from agentprof.model import EnergyWindow, OutcomeFact, RawSpan
from agentprof_collector.receive import Batch, logs, metrics, otlp
from agentprof_collector.receive.exchange import Media, Refused, Request, Signal, unpacked
from agentprof_collector.receive.otlp import NotOtlp


class _DecodeSpans(Protocol):
    def __call__(self, data: bytes, /, *, with_content: bool) -> Batch: ...


class Contents(msgspec.Struct, frozen=True):
    """What one request of any signal held."""

    spans: list[RawSpan] = []
    outcomes: list[OutcomeFact] = []
    windows: list[EnergyWindow] = []
    skipped: int = 0
    """Spans left out because they had no trace id, no span id or no start."""
    lost: int = 0
    """Values left out because they were of a wrong type or size."""
    dropped: int = 0
    """Log records and metrics that nothing here has a use for."""
    size_bytes: int = 0
    """Of the request, unpacked."""


def read(request: Request, *, with_content: bool = False) -> Contents:
    """Unpack and decode.

    Args:
        request: as it came.
        with_content: whether attributes that hold what was said are wanted.

    Raises:
        Refused: the sender made a mistake, or the request is too large.
    """
    body = unpacked(request.encoding, request.body)
    try:
        contents = _READERS[request.signal, request.media](body, with_content)
    except NotOtlp as error:
        raise Refused(400, str(error)) from error
    except RecursionError as error:
        raise Refused(400, "the message is nested too deeply") from error
    return msgspec.structs.replace(contents, size_bytes=len(body))


_Reader = Callable[[bytes, bool], Contents]


def _spans(decode: _DecodeSpans) -> _Reader:
    def contents(body: bytes, with_content: bool) -> Contents:
        batch = decode(body, with_content=with_content)
        return Contents(spans=batch.spans, skipped=batch.skipped, lost=batch.lost)

    return contents


def _outcomes(decode: Callable[[bytes], logs.Evaluations]) -> _Reader:
    def contents(body: bytes, with_content: bool) -> Contents:
        found = decode(body)
        return Contents(outcomes=found.outcomes, dropped=found.dropped)

    return contents


def _nothing(count: Callable[[bytes], int]) -> _Reader:
    return lambda body, with_content: Contents(dropped=count(body))


_READERS: Final[Mapping[tuple[Signal, Media], _Reader]] = {
    ("traces", "protobuf"): _spans(otlp.decode_protobuf),
    ("traces", "json"): _spans(otlp.decode_json),
    ("logs", "protobuf"): _outcomes(logs.decode_protobuf),
    ("logs", "json"): _outcomes(logs.decode_json),
    ("metrics", "protobuf"): _nothing(metrics.count_protobuf),
    ("metrics", "json"): _nothing(metrics.count_json),
}
