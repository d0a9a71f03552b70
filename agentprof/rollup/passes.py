"""The passes that make a tree plain: one span for one thing that happened, each change counted as a warning."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from agentprof.rollup.evidence import give_evidence
from agentprof.rollup.inside import take_in_reports
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.twins import join_twins
from agentprof.rollup.union import summed
from agentprof.rollup.wrappers import unwrap_calls

Pass = Callable[[Tree], None]


def end_open_spans(tree: Tree) -> None:
    """A span that never ended ends with its last descendant, else at its start."""
    is_open = False
    for node in tree.nodes:
        span = node.span
        if span.end_ns is None:
            is_open = True
        elif span.end_ns < span.start_ns:
            tree.warn("negative_duration")
    for node in tree.bottom_up() if is_open else ():
        if node.span.end_ns is None:
            # An engine below has a clock of its own.
            own = [child.end for child in node.children if child.span.engine is None]
            node.end = max([node.start, *own])
            tree.warn("no_end")


def keep_outermost_tools(tree: Tree) -> None:
    """Of tool spans nested with no model span between, the outermost is the tool run."""
    if not any(node.kind == "tool" and node.children for node in tree.nodes):
        return
    outermost: dict[int, Node | None] = {}
    inner: dict[int, list[Node]] = {}
    for node in tree.top_down():
        above = outermost.get(id(node.parent)) if node.parent is not None else None
        if node.kind == "tool" and above is not None:
            inner.setdefault(id(above), []).append(node)
            node.kind = "other"
        outermost[id(node)] = (
            None if node.kind == "model" else above or (node if node.kind == "tool" else None)
        )
    for node in tree.of_kind("tool"):
        _take_costs(node, inner.get(id(node), []))
    # Client and server of an MCP tool, and what calls it, each tell of the one run by design.
    several = [node for nodes in inner.values() for node in nodes if node.tool is None or not node.tool.mcp]
    tree.warn("nested_tool", len(several))


def _take_costs(outer: Node, inner: list[Node]) -> None:
    """What the parts of a tool run cost, where the whole does not say."""
    if outer.tool is None or outer.tool.cost is not None:
        return
    costs = [node.tool.cost for node in inner if node.tool is not None and node.tool.cost is not None]
    if costs:
        outer.tool = msgspec.structs.replace(outer.tool, cost=summed(costs))


# The order is part of the meaning:
# - spans get their ends first, every later pass compares times;
# - evidence leaves before calls are compared, or an engine's span would make a wrapper of its call;
# - what is inside a call of ours is given to it before calls are compared, as it may be a part of it only;
# - twins beside each other become one before wrappers are told from calls, or two reports of one call
#   below a third would look like two calls;
# - tools last: whether a model span stands between two tools is known only then.
PASSES: tuple[Pass, ...] = (
    end_open_spans,
    give_evidence,
    take_in_reports,
    join_twins,
    unwrap_calls,
    keep_outermost_tools,
)
