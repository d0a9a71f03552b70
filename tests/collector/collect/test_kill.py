"""`kill -9` at any moment, and a disk that is full: what was acknowledged is there, once, and adds up.

`scripts/soak_collector` does the same at length.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.collect_process import CollectProcess
from support.killing import kill_again_and_again
from support.under_load import Load, judge

KILLS = 50
SEED = 20_26
MEGABYTE = 1_000_000


def test_what_was_acknowledged_survives_kill_9_at_any_moment(tmp_path: Path) -> None:
    """Over HTTP and gRPC, while it starts, receives and adds up; no span counts twice."""
    database = tmp_path / "a.duckdb"
    ledger = kill_again_and_again(database, KILLS, SEED)
    verdict = judge(database, ledger)
    assert ledger.cut_off > 0
    assert ledger.requests > 10 * KILLS
    assert verdict.spans >= len(ledger.spans)


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_acknowledged_survives_a_full_disk(tmp_path: Path, killed: bool) -> None:
    """Senders are asked to come again meanwhile, and it goes on when there is room, also after a kill."""
    database = tmp_path / "a.duckdb"
    limit_bytes = random.Random(SEED + killed).randrange(MEGABYTE, 2 * MEGABYTE)
    with CollectProcess(database, largest_file_bytes=limit_bytes) as collector:
        load = Load(collector.ports, SEED)
        load.start()
        load.ledger.wait_for("put_off", 20)
        health = collector.pages.ask("/healthz")
        assert (health.status, health.document["status"]) == (503, "failing")
        assert "cannot be stored" in health.document["troubles"][0]
        assert load.ledger.requests > 0
        if killed:
            collector.kill()
        else:
            collector.allow_files_of(1000 * MEGABYTE)
            load.ledger.wait_for("requests", 100)
            load.finish()
            assert collector.pages.ask("/healthz").status == 200
            assert collector.stop()[0] == 0
    if killed:
        with CollectProcess(database, collector.ports) as collector:
            load.ledger.wait_for("requests", 100)
            load.finish()
            assert collector.stop()[0] == 0
    judge(database, load.ledger)
