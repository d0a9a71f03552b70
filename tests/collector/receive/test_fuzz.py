"""Mutated real requests at every endpoint: no crash, no hang, only standard answers.

`scripts/soak_fuzz` does the same at length, against a process whose memory it watches.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest
from support.collecting import SPAN, collecting
from support.fuzzing import Wire, figures, fuzz_readers
from support.mutated import Seeds, seeds

from agentprof_collector.stores import open_store

SEED = 20_26
READ, SENT = 17_000, 3_000


@pytest.fixture(scope="module")
def real() -> Seeds:
    """What is mutated; recorded requests only where they are."""
    folder = Path(__file__).parents[3].parent / "shared"
    return seeds(folder if folder.is_dir() else None)


def test_what_reads_requests_survives_them(real: Seeds) -> None:
    """Each is read, or refused; what is read is understood, stored and added up."""
    with open_store(None) as store:
        ended = fuzz_readers(real, random.Random(SEED), READ, store)
    assert sum(ended.values()) == READ
    assert ended["200"] > READ / 10, figures(ended)
    assert ended["400"] > READ / 10, figures(ended)


def test_every_endpoint_survives_them(real: Seeds, caplog: pytest.LogCaptureFixture) -> None:
    """Over the wire; afterwards everything works, and nothing was logged as a mistake of the collector."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    with collecting(keep_content=True) as collected:
        target = collected.collector.otlp_grpc_target
        assert target is not None
        wire = Wire(
            real,
            random.Random(SEED),
            collected.pages.port,
            collected.otlp.port,
            int(target.rpartition(":")[2]),
        )
        ended = wire.send(SENT)
        wire.close()
        assert collected.pages.ask("/healthz").document == {"status": "ok", "troubles": []}
        assert collected.send(SPAN).status == 200
        assert collected.collector._budget.taken_bytes == 0
        assert "agentprof_tasks_not_added_up_total 0.0" in collected.pages.ask("/metrics").text
    assert sum(ended.values()) == SENT
    for kind in ("export_http 200", "export_http 400", "export_grpc OK", "ask 200", "ask 404", "frame 200"):
        assert ended[kind] > 0, figures(ended)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
