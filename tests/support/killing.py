"""A collector under load that is killed again and again at random moments, and started again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from support.collect_process import CollectProcess, start_and_kill
from support.under_load import Ledger, Load

_MOST_REQUESTS, _LONGEST_S = 40, 0.05
"""So many requests are taken at most before a kill, and so long at most it comes after the last of them."""
_WHILE_STARTING = 0.4
"""Of the kills this part comes before it takes requests."""


def kill_again_and_again(
    database: Path,
    kills: int,
    seed: int,
    progress: Callable[[int, Ledger], object] = lambda done, ledger: None,
) -> Ledger:
    """At the end it is let finish; what its senders were told."""
    rng = random.Random(seed)
    with CollectProcess(database) as collector:
        ports = collector.ports
        load = Load(ports, seed)
        load.start()
        load.ledger.wait_for("requests", 20)
        collector.kill()
    for done in range(1, kills):
        progress(done, load.ledger)
        if rng.random() < _WHILE_STARTING:
            start_and_kill(database, ports, rng.uniform(0.0, 1.2))
            continue
        with CollectProcess(database, ports) as collector:
            load.ledger.wait_for("requests", rng.randrange(_MOST_REQUESTS))
            time.sleep(rng.uniform(0.0, _LONGEST_S))
            collector.kill()
    with CollectProcess(database, ports) as collector:
        load.ledger.wait_for("requests", 20)
        load.finish()
        code, said = collector.stop()
        assert code == 0, said
    return load.ledger
