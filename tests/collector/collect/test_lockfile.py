"""The file beside a database that says which collector holds it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentprof_collector.collect.lockfile import LockFile, lock_path, read_lock, remove_lock, write_lock

LOCK = LockFile(
    url="http://127.0.0.1:8321", pid=4711, otlp_http="http://127.0.0.1:4318", otlp_grpc="127.0.0.1:4317"
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By this user only; it stands beside the database, under its name."""
    database = tmp_path / "a.duckdb"
    write_lock(database, LOCK)
    assert read_lock(database) == LOCK
    assert lock_path(database) == tmp_path / "a.duckdb.lock.json"
    assert stat.S_IMODE(lock_path(database).stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["a.duckdb.lock.json"]


def test_a_file_of_before_is_replaced(tmp_path: Path) -> None:
    """Who holds the database is right, whatever stood there."""
    database = tmp_path / "a.duckdb"
    lock_path(database).write_bytes(b"\xff nonsense")
    write_lock(database, LOCK)
    assert read_lock(database) == LOCK


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff\xfe",
        b'{"pid": 5}',
        b'{"url": 5}',
        b'{"url": ""}',
        b'{"url": "file:///etc/passwd", "pid": 5}',
        b'{"url": "http://127.0.0.1:1", "pid": "5"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_such_file_is_none(tmp_path: Path, content: bytes) -> None:
    """It is not followed, and no error."""
    database = tmp_path / "a.duckdb"
    lock_path(database).write_bytes(content)
    assert read_lock(database) is None


def test_no_file_is_none(tmp_path: Path) -> None:
    """As is one that is a folder."""
    assert read_lock(tmp_path / "none.duckdb") is None
    lock_path(tmp_path / "b.duckdb").mkdir()
    assert read_lock(tmp_path / "b.duckdb") is None


def test_fields_of_later_versions_are_ignored(tmp_path: Path) -> None:
    """And those of earlier ones may be missing."""
    lock_path(tmp_path / "a").write_text('{"url": "http://x", "later": {"a": [1]}}')
    assert read_lock(tmp_path / "a") == LockFile(url="http://x")


def test_only_the_holder_removes_it(tmp_path: Path) -> None:
    """Another collector may have written its own meanwhile."""
    write_lock(tmp_path / "a", LOCK)
    remove_lock(tmp_path / "a", 1)
    assert read_lock(tmp_path / "a") == LOCK
    remove_lock(tmp_path / "a", 4711)
    assert read_lock(tmp_path / "a") is None
    remove_lock(tmp_path / "a", 4711)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_an_error(tmp_path: Path) -> None:
    """Of the system, for the caller to explain."""
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        write_lock(tmp_path / "a", LOCK)
    tmp_path.chmod(0o700)
