"""The overlap view: time with a call running, with a tool running, with both, with neither."""

from __future__ import annotations

from collections.abc import Iterable

from agentprof.rollup.tree import Node, Tree

Interval = tuple[int, int]


def overlap(tree: Tree, inferred: Iterable[Interval] = ()) -> dict[str, int]:
    """Unions over whole calls and whole tool runs inside the wall: model + tool - both + neither = wall.

    Args:
        inferred: Time in the wall of tools that no span tells of.
    """
    low, high = tree.root.start, tree.root.end
    model = _union(tree.of_kind("model"), low, high)
    tool = _merged(sorted([*_union(tree.of_kind("tool"), low, high), *inferred]))
    model_ns, tool_ns = _length(model), _length(tool)
    either_ns = _length(_merged(sorted((*model, *tool))))
    return {
        "model": model_ns,
        "tool": tool_ns,
        "both": model_ns + tool_ns - either_ns,
        "neither": high - low - either_ns,
    }


def _union(nodes: Iterable[Node], low: int, high: int) -> list[Interval]:
    clipped = [
        (node.start if node.start > low else low, node.end if node.end < high else high) for node in nodes
    ]
    return _merged(sorted([interval for interval in clipped if interval[0] < interval[1]]))


def _merged(ordered: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in ordered:
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _length(intervals: list[Interval]) -> int:
    return sum([end - start for start, end in intervals])
