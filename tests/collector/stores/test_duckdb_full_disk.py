import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FILLS = """
import json, random, resource, sys
from pathlib import Path
from agentprof.model import Span
from agentprof_collector.errors import StoreError, StoreNotWritten
from agentprof_collector.stores import open_store

path, limit, big = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(1)
kept, refused = [], []

def write(store, number, bytes_of_name):
    # What does not get smaller when it is packed.
    name = chance.randbytes(bytes_of_name).decode("latin-1")
    span = Span(trace_id=f"t{number}", span_id="s", start_ns=number, name=name)
    try:
        store.add_spans([span], [("a", f"t{number}")])
        kept.append(span.trace_id)
    except StoreNotWritten as error:
        refused.append(span.trace_id)
        said.add(str(error).partition("(")[2].partition(":")[0])

def there(store):
    return sorted(span.trace_id for span in store.spans_of(kept + refused))

said = set()
with open_store(path) as store:
    for number in range(20):
        write(store, number, 100_000)
    before = len(kept)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for number in range(20, 75):
        write(store, number, big if number % 3 else 200)
    seen = [there(store)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(store, 1_000, 100_000)
    seen.append(there(store))
    pairs = sorted(store.traces_of(["a"]))
with open_store(path) as store:
    seen.append(there(store))
print(json.dumps({"before": before, "kept": sorted(kept), "refused": sorted(refused), "seen": seen,
    "pairs": pairs, "said": sorted(said)}))
"""


def fill(path: Path, limit: int, big: int) -> dict[str, Any]:
    """Writes until files may not grow any more, goes on, and is freed again; what it kept and what it saw."""
    arguments = [str(path), str(limit), str(big)]
    done = subprocess.run(
        [sys.executable, "-c", FILLS, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("limit", "big"),
    [(4_000_000, 300_000), (20_000_000, 1_000_000)],
    ids=["the log", "the file"],
)
def test_a_full_disk_costs_nothing_that_was_acknowledged(tmp_path: Path, limit: int, big: int) -> None:
    """Refused while the log may not grow, and while the file may not; the store answers all the while, takes
    what still fits, and works again when there is room, with each write there once or, if refused, not at all."""
    found = fill(tmp_path / "s.duckdb", limit, big)
    assert found["before"] == 20
    assert found["refused"]
    assert "t1000" in found["kept"]
    # Of the writes after the twenty some still fitted.
    assert len(found["kept"]) > 21
    kept = set(found["kept"])
    assert found["seen"] == [sorted(kept - {"t1000"}), sorted(kept), sorted(kept)]
    assert found["pairs"] == sorted(kept)
