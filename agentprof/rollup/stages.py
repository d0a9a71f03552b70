"""The phases of a request from the spans of its stages inside an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agentprof.model import EngineStage, Phase
from agentprof.rollup.tree import Node

_UNSEEN_NS: Final = 1_000_000
"""Time between stages before the queue that counts as queueing: less lies between any two spans."""


def staged(nodes: Iterable[Node], arrival: int | None) -> dict[str, Phase] | None:
    """The phases, on the engine's own clock; None if no node is a stage.

    The queue lasts until the prompt is first worked on, the prefill until all of it is, and what follows, waiting
    among it, is generation: after a retraction the first two stages come again.

    Args:
        nodes: stages of one request; others are left out.
        arrival: when the request came, ns, by the same clock; None: not known.
    """
    stages: dict[EngineStage, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.order):
        if node.span.evidence is not None and (stage := node.span.evidence.stage) is not None:
            stages.setdefault(stage, []).append(node)
    if not stages:
        return None
    phases = _of_any_model(stages)
    prefill = _prefill(stages)
    if "queue" in stages:
        phases["queue"] = _queue(stages, prefill, arrival)
    if prefill is not None:
        phases["prefill"] = Phase(ns=prefill[1] - prefill[0], source="joined", field=prefill[2])
    if "generation" in stages:
        decoding = stages["generation"]
        begin = prefill[1] if prefill is not None else decoding[0].start
        end = max([node.end for node in decoding])
        if end >= begin:
            phases["generation"] = Phase(ns=end - begin, source="joined", field=decoding[0].span.name)
    return phases


def _prefill(stages: dict[EngineStage, list[Node]]) -> tuple[int, int, str] | None:
    """Start, end and name of the first prefill."""
    chunks = stages.get("chunk", [])
    if "prefill" in stages:
        first = stages["prefill"][0]
        return min([first.start, *(node.start for node in chunks)]), first.end, first.span.name
    before = stages["generation"][0].start if "generation" in stages else None
    chunks = [node for node in chunks if before is None or node.start < before]
    if not chunks:
        return None
    return chunks[0].start, max([node.end for node in chunks]), chunks[0].span.name


def _queue(
    stages: dict[EngineStage, list[Node]], prefill: tuple[int, int, str] | None, arrival: int | None
) -> Phase:
    """The first wait for the scheduler, and what passed unseen before it.

    A scheduler that is inside a step takes no request in, and no span says so.
    """
    first = stages["queue"][0]
    waited = first.end - first.start
    if arrival is not None and prefill is not None:
        before = prefill[0] - arrival
        unseen = before - waited - _covered(stages.get("frontend", ()), arrival, first.start)
        if unseen > _UNSEEN_NS:
            return Phase(ns=waited + unseen, source="derived", field=f"{first.span.name} + time in no span")
    return Phase(ns=waited, source="joined", field=first.span.name)


def _covered(nodes: Sequence[Node], begin: int, end: int) -> int:
    """How much of a stretch lies in any of the spans."""
    covered, at = 0, begin
    for node in nodes:
        start, stop = max(node.start, at), min(node.end, end)
        if stop > start:
            covered += stop - start
            at = stop
    return covered


def _of_any_model(stages: dict[EngineStage, list[Node]]) -> dict[str, Phase]:
    """Of a server of any models: how long it had the request, and how much of that the request waited."""
    computing = stages.get("model", [])
    requests = set(map(id, stages.get("request", ())))
    times = [
        (node, above) for node in computing if (above := node.parent) is not None and id(above) in requests
    ]
    if not times or len(times) < len(computing):
        return {}
    queue = sum([node.start - above.start for node, above in times])
    whole = sum([above.end - above.start for _, above in times])
    if not 0 <= queue <= whole:
        return {}
    field = computing[0].span.name
    return {
        "queue": Phase(ns=queue, source="derived", field=f"start of {field} - start of request"),
        "model": Phase(ns=whole, source="joined", field="request"),
    }
