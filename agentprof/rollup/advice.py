"""What would have told more: the switch of an engine that answered without its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from agentprof._gaps import BETWEEN
from agentprof.engines.table import ADVICE
from agentprof.rollup.possible import is_reported
from agentprof.rollup.tree import Node
from agentprof.summary import Warn

_PARTS: Final = ("queue", "prefill", "wait", "generation")


def advice(calls: Iterable[Node]) -> list[Warn]:
    """One line an engine, with the number of calls it served without saying how long they waited."""
    silent = [
        node.call.engine
        for node in calls
        if node.call is not None
        and node.call.engine is not None
        and node.call.engine in ADVICE
        and not node.error
        and not any(is_reported(node.call.phases.get(part)) for part in _PARTS)
        # Times that cannot be were sent all the same; those between tokens are the client's.
        and all(fault.startswith(BETWEEN) for fault in node.call.timing_faults)
    ]
    return [
        Warn(code=f"{engine}_timing", count=count, detail=ADVICE[engine])
        for engine, count in sorted(Counter(silent).items() if silent else ())
    ]
