"""Ids by which calls and spans of engines find each other, as rows that say in which traces they stand."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from agentprof.model import Span
from agentprof.rollup.joins import MOST_TRACES, call_ids, engine_ids, seeking

FIRST_TRACES: Final = MOST_TRACES + 1
"""How many of the traces of an id are looked at; see `agentprof.rollup.joins.MOST_TRACES`."""

Row = tuple[int, str]


class IdRows(NamedTuple):
    """(hash of an id, trace id), each once."""

    of_calls: list[Row]
    of_engines: list[Row]


def id_rows(spans: Iterable[Span]) -> IdRows:
    """The rows that spans give rise to."""
    calls: dict[Row, None] = {}
    engines: dict[Row, None] = {}
    for span in spans:
        if span.call is None:
            continue
        for one in call_ids(span):
            calls[hashed(one), span.trace_id] = None
        if span.engine is not None and seeking([span]):
            for one in engine_ids(span):
                engines[hashed(one), span.trace_id] = None
    return IdRows(list(calls), list(engines))


def hashes(ids: Collection[str]) -> list[int]:
    """What stands for the ids in the rows."""
    return [hashed(one) for one in ids]


def hashed(one: str) -> int:
    """64 bits of an id: two that share them cost a look, who adds up compares the ids."""
    return int.from_bytes(hashlib.blake2b(one.encode("utf-8", "surrogatepass"), digest_size=8).digest())
