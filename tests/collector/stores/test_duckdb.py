import contextlib
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from store_contract import OpenStore, StoreContract, root, row

from agentprof_collector.errors import StoreLocked, StoreMissing, StoreNotWritten, StoreUnusable
from agentprof_collector.stores import Store, open_store


class TestDuckDbFile(StoreContract):
    """The contract on a file."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return lambda: open_store(tmp_path / "new" / "folder" / "spans.duckdb")


class TestDuckDbInMemory(StoreContract):
    """The contract without a file: as long as the store is open."""

    @pytest.fixture
    def open_store(self) -> Iterator[OpenStore]:
        with open_store(None) as store:
            yield lambda: contextlib.nullcontext(store)


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start another process of this Python, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


WRITES_AND_WAITS = """
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from agentprof.model import Span
from agentprof_collector.stores import open_store
store = open_store(Path(sys.argv[1]))
store.add_spans([Span(trace_id="t", span_id="s", start_ns=1)], [("a", "t")])
print("written", flush=True)
sys.stdin.read()
"""


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    """After `add_spans` has returned, SIGKILL loses nothing, also for who may only read."""
    path = tmp_path / "s.duckdb"
    with run_python(WRITES_AND_WAITS, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    for read_only in (True, False):
        with open_store(path, read_only=read_only) as store:
            assert [span.key for span in store.spans_of(["t"])] == [("t", "s")]
            assert store.traces_of(["a"]) == {"t"}


def test_a_file_another_process_holds(tmp_path: Path) -> None:
    """The error names the process, and the file is usable once it is gone."""
    path = tmp_path / "s.duckdb"
    with run_python(WRITES_AND_WAITS, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        for read_only in (True, False):
            with pytest.raises(StoreLocked, match=f"held by process {process.pid}") as caught:
                open_store(path, read_only=read_only)
            assert caught.value.pid == process.pid
        process.communicate("")
    open_store(path).close()


def test_two_readers_at_once(tmp_path: Path) -> None:
    """Reading does not lock out other readers."""
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    reads = "import sys; from pathlib import Path; from agentprof_collector.stores import open_store\n"
    reads += "print(open_store(Path(sys.argv[1]), read_only=True).tasks())"
    with open_store(path, read_only=True) as store:
        done = subprocess.run(
            [sys.executable, "-c", reads, str(path)], capture_output=True, text=True, check=True
        )
        assert done.stdout == "[]\n"
        assert store.tasks() == []


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    """Reading creates nothing."""
    with pytest.raises(StoreMissing, match="no database at"):
        open_store(tmp_path / "none.duckdb", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_store(tmp_path: Path) -> None:
    """A text file, a folder, a foreign database and another version are refused and left as they are."""
    text = tmp_path / "text.duckdb"
    text.write_text("not a database " * 100)
    with pytest.raises(StoreUnusable, match=r"text\.duckdb: cannot be opened"):
        open_store(text)
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(tmp_path)
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(foreign) as connection:
        connection.execute("CREATE TABLE spans (a INTEGER)")
    with pytest.raises(StoreUnusable, match="is a database of something else"):
        open_store(foreign)
    newer = tmp_path / "newer.duckdb"
    open_store(newer).close()
    with duckdb.connect(newer) as connection:
        connection.execute("UPDATE agentprof_meta SET schema_version = 99")
    with pytest.raises(StoreUnusable, match="schema version 99, this program reads version 3 and older"):
        open_store(newer)
    with duckdb.connect(newer) as connection:
        connection.execute("DELETE FROM agentprof_meta")
    with pytest.raises(StoreUnusable, match="is a database of something else"):
        open_store(newer, read_only=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_a_folder_one_may_not_write(tmp_path: Path) -> None:
    """The error says why."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreUnusable):
            open_store(tmp_path / "below" / "s.duckdb")
    finally:
        tmp_path.chmod(0o700)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """Spans and pairs of one call are written together or not at all."""
    path = tmp_path / "s.duckdb"
    open_store(path).close()
    with open_store(path, read_only=True) as store:
        with pytest.raises(StoreNotWritten, match="cannot be written"):
            store.add_spans([root("t", "a")], [("a", "t")])
        assert_empty(store)


def assert_empty(store: Store) -> None:
    """Nothing is there, and the store still answers."""
    assert store.spans_of(["t"]) == []
    assert store.traces_of(["a"]) == set()


def test_opened_twice_by_one_process(tmp_path: Path) -> None:
    """The second time is refused before the file is looked at, so that the lock of the first stays."""
    path = tmp_path / "s.duckdb"
    with open_store(path) as store:
        for read_only in (False, True):
            with pytest.raises(StoreLocked) as caught:
                open_store(path, read_only=read_only)
            assert caught.value.pid == os.getpid()
        opens = "import sys; from pathlib import Path; from agentprof_collector.stores import open_store\n"
        opens += "open_store(Path(sys.argv[1]), read_only=True)"
        done = subprocess.run(
            [sys.executable, "-c", opens, str(path)], capture_output=True, text=True, check=False
        )
        assert f"is held by process {os.getpid()}" in done.stderr
        assert store.tasks() == []


def test_names_of_files_are_only_names(tmp_path: Path) -> None:
    """Quotes and semicolons in a path mean themselves."""
    path = tmp_path / "o'hara'; DROP TABLE tasks;--.duckdb"
    for _ in range(2):
        with open_store(path) as store:
            assert store.tasks() == []
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_rows_that_cannot_be_read(tmp_path: Path) -> None:
    """Of another version, or damaged: the error names the file, and the rest can be asked for."""
    path = tmp_path / "s.duckdb"
    with open_store(path) as store:
        store.add_spans([root("t1", "a")], [("a", "t1")])
        store.put_tasks([row("a", [root("t1", "a")])], {"t1"})
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE tasks SET summary = 'no zlib'::BLOB")
        connection.execute("UPDATE batches SET body = $body", {"body": zlib.compress(b"[{}]")})
    with open_store(path) as store:
        for ask in (store.tasks, lambda: store.task("a"), lambda: store.spans_of(["t1"])):
            with pytest.raises(StoreUnusable, match=r"s\.duckdb: holds what this version cannot read"):
                ask()
        assert store.traces_of(["a"]) == {"t1"}
        assert store.groups()[0]["tasks"] == 1
