"""Gives every stretch of the walk a part of the timeline and a row of the profile."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

from agentprof.model import Source
from agentprof.rollup.inferred import TAKES, inferred_stretches, inside
from agentprof.rollup.phases import Segment, fill_phases
from agentprof.rollup.timeline import walk
from agentprof.rollup.tree import OWNERS, Node, Tree
from agentprof.summary import EVIDENCED, TIMELINE

# A call's segments that have no part of that name on the timeline.
_ON_TIMELINE = {"connect": "network", "client": "other"}
_OWN_TIME = {"tool": "tool", "step": "step", "agent": "step", "human": "human"}
_TIMED = OWNERS | {"wrapper"}
_MANY_SEGMENTS = 16
"""Of a call with more, those that lie in a stretch are looked up rather than all looked at."""


class InferredTool(NamedTuple):
    """Time on the timeline that tools took which no span tells of."""

    row: Node
    """The node in whose row of the profile the tool stands."""
    name: str
    start: int
    end: int


class Profile:
    """How the wall of a task divides, by part of the timeline, by source and by owner."""

    def __init__(self) -> None:
        self.timeline_ns: dict[str, int] = dict.fromkeys(TIMELINE, 0)
        self.evidence_ns: dict[str, dict[Source, int]] = {part: {} for part in EVIDENCED}
        self.path_ns: defaultdict[int, int] = defaultdict(int)
        """By id of the node that owns a row of the profile."""
        self.segments: dict[int, tuple[Segment, ...]] = {}
        """Of each call, by id of its node: its phases, whether or not they own time."""
        self.inferred: list[InferredTool] = []
        """By start; none at the same time as another."""
        self._ends: dict[int, list[int]] = {}

    def segment_ends(self, call: Node) -> list[int]:
        """Where each segment of a call ends."""
        ends = self._ends.get(id(call))
        if ends is None:
            sums = accumulate((segment.ns for segment in self.segments[id(call)]), initial=call.start)
            ends = self._ends[id(call)] = list(sums)[1:]
        return ends

    def give(self, part: str, ns: int, source: Source) -> None:
        """Count time for a part of the timeline."""
        self.timeline_ns[part] += ns
        by_source = self.evidence_ns.get(part)
        if by_source is not None and ns:
            by_source[source] = by_source.get(source, 0) + ns


def profiled(tree: Tree) -> Profile:
    """The division of the root's interval; every nanosecond counts exactly once."""
    profile = Profile()
    for call in tree.of_kind("model"):
        profile.segments[id(call)] = _segments(tree, call)
    inferred = inferred_stretches(tree)
    timed: dict[int, Node] = {}
    rows: dict[int, Node] = {}
    for owner, start, end in walk(tree):
        timed_by = row = owner
        if owner.kind not in OWNERS:
            timed_by, row = _nearest(owner, timed, _TIMED), _nearest(owner, rows, OWNERS)
        ns = end - start
        if inferred and timed_by.kind in TAKES:
            for stretch in inside(inferred.get(id(timed_by), ()), start, end):
                profile.inferred.append(InferredTool(row, stretch.name, stretch.start, stretch.end))
                profile.give("tool", stretch.end - stretch.start, "inferred")
                ns -= stretch.end - stretch.start
        profile.path_ns[id(row)] += ns
        if timed_by.kind == "model":
            _give_phases(profile, timed_by, start, end)
        else:
            profile.give(_OWN_TIME.get(timed_by.kind, "other"), ns, "observed")
    profile.inferred.sort(key=lambda tool: tool.start)
    return profile


def on_timeline(segment_name: str) -> str:
    """The part of the timeline a segment of a call counts for."""
    return _ON_TIMELINE.get(segment_name, segment_name)


def _segments(tree: Tree, node: Node) -> tuple[Segment, ...]:
    if node.call is None:
        return (Segment("model", node.end - node.start, "observed"),)
    filled = fill_phases(node.call, node.end - node.start)
    if filled.overflow:
        tree.warn("phase_overflow")
    if node.call.timing_faults or filled.faults:
        tree.faulty((*node.call.timing_faults, *filled.faults))
    return filled.segments


def _give_phases(profile: Profile, call: Node, start: int, end: int) -> None:
    """Count of each phase what lies inside the stretch; a stretch of a call lies inside the call."""
    segments = profile.segments[id(call)]
    if len(segments) == 1:
        profile.give(on_timeline(segments[0].name), end - start, segments[0].source)
        return
    first, at = 0, call.start
    if len(segments) > _MANY_SEGMENTS:
        ends = profile.segment_ends(call)
        first = bisect_right(ends, start)
        at = ends[first - 1] if first else call.start
    for place in range(first, len(segments)):
        if at >= end:
            break
        segment = segments[place]
        inside = min(at + segment.ns, end) - max(at, start)
        if inside > 0:
            profile.give(on_timeline(segment.name), inside, segment.source)
        at += segment.ns


def _nearest(node: Node, memo: dict[int, Node], kinds: frozenset[str]) -> Node:
    """The node itself or the nearest above it of one of the kinds; the root is of kind task."""
    path: list[Node] = []
    current = node
    while id(current) not in memo and current.kind not in kinds and current.parent is not None:
        path.append(current)
        current = current.parent
    found = memo.get(id(current), current)
    for passed in path:
        memo[id(passed)] = found
    return found
