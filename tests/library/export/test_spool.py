"""Requests on disk: private, whole, bounded, and sent by one process only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentprof import _guard, _spool
from agentprof._counts import counts
from agentprof._spool import Spool, destination


def spool(folder: Path, url: str = "http://a/v1/traces") -> Spool:
    return Spool(folder, destination(url, {}))


def test_files_are_private(folder: Path) -> None:
    """The folder and the files in it belong to the user alone, whatever the umask."""
    before = os.umask(0)
    try:
        assert spool(folder).put(b"request", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_bytes() == b"request"


def test_the_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They could read our spans, or have theirs sent in our name."""
    folder.mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert not spool(folder).put(b"request", 1)
    assert list(folder.iterdir()) == []
    assert _guard.counts() == {"spool": 1}


def test_the_oldest_first_and_each_once(folder: Path) -> None:
    """A claimed file is nobody else's; a released one comes again, in its place."""
    one, other = spool(folder), spool(folder)
    for number in range(3):
        assert one.put(b"%d" % number, number)
    first, second = one.claim_oldest(), other.claim_oldest()
    assert first is not None
    assert second is not None
    assert (first.read(), first.spans) == (b"0", 0)
    assert (second.read(), second.spans) == (b"1", 1)
    one.release(first)
    again = other.claim_oldest()
    assert again is not None
    assert again.read() == b"0"
    other.remove(again)
    other.remove(second)
    third = one.claim_oldest()
    assert third is not None
    assert third.read() == b"2"
    assert one.claim_oldest() is None


def test_many_claim_at_once(folder: Path) -> None:
    """Of 200 files, eight threads get each one exactly once."""
    writer = spool(folder)
    for number in range(200):
        assert writer.put(b"%d" % number, 1)
    got: list[bytes] = []

    def work() -> None:
        mine = spool(folder)
        while (claim := mine.claim_oldest()) is not None:
            request = claim.read()
            assert request is not None
            got.append(request)
            mine.remove(claim)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got, key=int) == [b"%d" % number for number in range(200)]


def test_other_receivers_files_are_left(folder: Path) -> None:
    """Spans go where they were meant to go: the same URL with the same headers."""
    assert spool(folder, "http://a/v1/traces").put(b"a", 1)
    assert spool(folder, "http://b/v1/traces").claim_oldest() is None
    assert Spool(folder, destination("http://a/v1/traces", {"x-key": "1"})).claim_oldest() is None
    assert spool(folder, "http://a/v1/traces").claim_oldest() is not None


def test_keys_are_not_in_names() -> None:
    """Only a digest of them is."""
    assert "secret" not in destination("http://a/secret", {"authorization": "secret"})


def test_claims_of_dead_processes_are_taken_over(folder: Path) -> None:
    """At once on this machine; a living process keeps its claim."""
    mine = spool(folder)
    assert mine.put(b"request", 1)
    claim = mine.claim_oldest()
    assert claim is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = Path(str(claim.path).rpartition("-")[0] + f"-{other.pid}")
        claim.path.rename(theirs)
        assert mine.claim_oldest() is None
        other.communicate(b"\n")
    again = mine.claim_oldest()
    assert again is not None
    assert again.read() == b"request"


def test_claims_of_other_machines_are_taken_over_late(folder: Path) -> None:
    """Nobody can ask for a process there: only its age tells."""
    mine = spool(folder)
    assert mine.put(b"request", 1)
    claim = mine.claim_oldest()
    assert claim is not None
    theirs = claim.path.with_name(claim.stem + ".claimed-00000000-1")
    claim.path.rename(theirs)
    assert mine.claim_oldest() is None
    past = time.time() - _spool.CLAIM_S - 1
    os.utime(theirs, (past, past))
    assert mine.claim_oldest() is not None


def test_what_was_never_finished_is_removed_late(folder: Path) -> None:
    """It may belong to a process that is just writing it."""
    mine = spool(folder)
    assert mine.put(b"request", 1)
    (file,) = folder.iterdir()
    unfinished = file.rename(str(file) + ".unfinished")
    assert mine.claim_oldest() is None
    assert unfinished.exists()
    past = time.time() - _spool.CLAIM_S - 1
    os.utime(unfinished, (past, past))
    assert mine.claim_oldest() is None
    assert not unfinished.exists()


def test_a_full_spool_drops_the_oldest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over its bytes or its files; the spans are counted, and it is said once."""
    monkeypatch.setattr(_spool, "MAX_BYTES", 100)
    mine = spool(folder)
    for number in range(10):
        assert mine.put(b"%d" % number * 30, 7)
    assert counts.discarded == 7 * 7
    assert _guard.counts() == {"full spool": 7}
    claim = mine.claim_oldest()
    assert claim is not None
    assert claim.read() == b"7" * 30


def test_files_being_sent_are_not_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound takes the next one."""
    mine = spool(folder)
    for number in range(3):
        assert mine.put(b"%d" % number, 1)
    claim = mine.claim_oldest()
    monkeypatch.setattr(_spool, "MAX_FILES", 2)
    assert mine.put(b"3", 1)
    assert claim is not None
    assert claim.read() == b"0"
    left = mine.claim_oldest()
    assert left is not None
    assert left.read() == b"3"


def test_other_files_are_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever somebody keeps in the folder."""
    monkeypatch.setattr(_spool, "MAX_FILES", 1)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    mine = spool(folder)
    assert mine.put(b"1", 1)
    assert mine.put(b"2", 1)
    assert (folder / "notes.txt").read_text() == "mine"
    assert mine.claim_oldest() is not None
    assert mine.claim_oldest() is None
