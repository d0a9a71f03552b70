"""Which runs of a task did again what an earlier run had done, told by fingerprints; and what was waste."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from agentprof.rollup.missing import LEFT_EARLY
from agentprof.rollup.rows import Sums, cost_of
from agentprof.rollup.tree import Node
from agentprof.summary import Wasted


class Again:
    """The runs of one kind that came after a run of the same thing."""

    def __init__(self, runs: Sequence[Node], same: Callable[[Node], tuple[str, str] | None]) -> None:
        """Compare runs.

        Args:
            same: Title and fingerprint, equal for runs of the same thing; None where it is not known what a run was.
        """
        groups: dict[tuple[str, str], list[Node]] = {}
        for node in runs:
            what = same(node)
            if what is not None:
                groups.setdefault(what, []).append(node)
        self.keys = {fingerprint.rpartition("-")[0] for _, fingerprint in groups}
        """What the fingerprints were made with."""
        known = (bool(groups) or not runs) and len(self.keys) <= 1
        self.retries: int | None = 0 if known else None
        """Runs after one that failed. None: no run says what it was, or not all can be compared."""
        self.repeats: int | None = 0 if known else None
        """Runs after one that succeeded."""
        self.discarded: list[Node] = []
        """The failed runs that were repeated."""
        for group in groups.values():
            if len(group) > 1:
                self._compare(group)
        if not known:
            self.retries = self.repeats = None  # among those that can be compared is not all

    def _compare(self, group: list[Node]) -> None:
        by_start = sorted(group, key=lambda node: node.order)
        by_end = sorted(group, key=lambda node: (node.end, node.order))
        ended, before = 0, None
        discarded: dict[int, Node] = {}
        for last, node in pairwise(by_start):
            while by_end[ended].end <= node.start and by_end[ended].order < node.order:
                before = by_end[ended]
                ended += 1
            if before is None:
                # All of them still run: asked several times at once, as for a vote.
                self.repeats = (self.repeats or 0) + succeeded(last)
            elif succeeded(before):
                self.repeats = (self.repeats or 0) + 1
            else:
                self.retries = (self.retries or 0) + 1
                discarded[id(before)] = before
        self.discarded += discarded.values()


def succeeded(node: Node) -> bool:
    """Whether a run gave what was asked for."""
    return not node.error and (node.call is None or node.call.stream_end not in LEFT_EARLY)


def calls_again(calls: Sequence[Node]) -> Again:
    """Of calls: the same request."""

    def same(node: Node) -> tuple[str, str] | None:
        found = node.call.fingerprint if node.call is not None else None
        return None if found is None else ("", found)

    return Again(calls, same)


def tools_again(tools: Sequence[Node]) -> Again:
    """Of tools: the same tool with the same arguments."""

    def same(node: Node) -> tuple[str, str] | None:
        found = node.tool.fingerprint if node.tool is not None else None
        return None if found is None else (node.title, found)

    return Again(tools, same)


def again_fields(calls: Again, tools: Again, transport: int | None) -> dict[str, Any]:
    """`retries` and `repeats`.

    Args:
        transport: Attempts beyond the first of each call.
    """
    return {
        "retries": {"transport": transport, "call": calls.retries, "tool": tools.retries},
        "repeats": {"call": calls.repeats, "tool": tools.repeats},
    }


def wasted(calls: Sequence[Node], tools: Sequence[Node], discarded: Sequence[Node]) -> Wasted:
    """What was provably thrown away: failed attempts with their pauses, streams left before their end, and
    failed runs that were repeated, with everything below them. Nothing counts twice."""
    sums, time_ns = Sums(), 0
    whole, below = set(map(id, discarded)), _below(discarded)
    for node in (*calls, *tools):
        inside = id(node) in below
        call = node.call
        failed_ns = sum(a.duration_ns + a.backoff_ns for a in call.failed_attempts) if call is not None else 0
        left = call is not None and call.stream_end in ("abandoned", "cancelled")
        if inside or left or id(node) in whole:
            sums.add_tokens_of(node)
            sums.add_cost(cost_of(node))
            failed_ns = max(failed_ns, node.end - node.start)
        if not inside:
            time_ns += failed_ns
    return {
        "cost_usd": sums.cost_usd,
        "input_tokens": sums.tokens["input"],
        "output_tokens": sums.tokens["output"],
        "time_ns": time_ns,
    }


def _below(nodes: Iterable[Node]) -> set[int]:
    found: set[int] = set()
    pending = [child for node in nodes for child in node.children]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found.add(id(node))
            pending += node.children
    return found
