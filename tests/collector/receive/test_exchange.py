"""What holds of a request whatever carried it: how it is unpacked, and how much may wait."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof_collector.receive.exchange import BODY_LIMIT, Budget, Refused, unpacked


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_gzip_of_one_or_several_members_is_unpacked(parts: list[bytes]) -> None:
    """Members follow each other as if they were one."""
    assert unpacked("gzip", b"".join(gzip.compress(part) for part in parts)) == b"".join(parts)


@pytest.mark.parametrize("encoding", ["", "identity", "none", " Identity "])
def test_what_is_not_packed_is_left_alone(encoding: str) -> None:
    """Under all names for that."""
    assert unpacked(encoding, b"\x1f\x8b as it is") == b"\x1f\x8b as it is"
    assert unpacked(" GZIP ", gzip.compress(b"x")) == b"x"


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "snappy", "x" * 1000])
def test_other_encodings_are_refused(encoding: str) -> None:
    """With what is expected."""
    with pytest.raises(Refused, match="expected Content-Encoding gzip") as refused:
        unpacked(encoding, b"x")
    assert refused.value.status == 415


PACKED = gzip.compress(b"spans" * 100)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nothing of the kind", "damaged"),
        (zlib.compress(b"x"), "damaged"),
        (PACKED[:-1], "cut off"),
        (PACKED[:5], "cut off"),
        (PACKED + b"rest", "damaged"),
        (PACKED[:-8] + b"\0" * 8, "damaged"),
        (PACKED + PACKED[:-3], "cut off"),
        (gzip.compress(b"") * 1001, "members"),
    ],
)
def test_damaged_gzip_is_refused(body: bytes, message: str) -> None:
    """Checksums included; nothing of it is used."""
    with pytest.raises(Refused, match=message) as refused:
        unpacked("gzip", body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "bomb",
    [gzip.compress(bytes(400_000_000)), gzip.compress(bytes(5_000_000)) * 100],
    ids=["one member", "many members"],
)
def test_a_bomb_is_not_unpacked_beyond_the_limit(bomb: bytes) -> None:
    """Its memory stays near the limit, however much is in it."""
    tracemalloc.start()
    with pytest.raises(Refused) as refused:
        unpacked("gzip", bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.value.status == 413
    assert peak_bytes < 3 * BODY_LIMIT


def test_the_limit_itself_is_allowed() -> None:
    """One byte more is not, packed or not."""
    full = bytes(BODY_LIMIT)
    assert unpacked("gzip", gzip.compress(full, 1)) == full
    assert unpacked("", full) is full
    for encoding, body in (("", full + b"\0"), ("gzip", gzip.compress(full + b"\0", 1))):
        with pytest.raises(Refused) as refused:
            unpacked(encoding, body)
        assert refused.value.status == 413


def test_a_budget_is_never_exceeded() -> None:
    """What does not fit is put off and not counted; what is given back can be had again."""
    budget = Budget(10)
    budget.take(4)
    budget.take(6)
    with pytest.raises(Refused) as refused:
        budget.take(1)
    assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "1"})
    assert budget.taken_bytes == 10
    budget.give_back(6)
    budget.take(5)
    assert budget.taken_bytes == 9
