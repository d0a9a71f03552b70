"""The tree of a task: spans with their parents and children, as the passes make it plain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from agentprof.model import Call, Span, SpanKind, Tool

NodeKind = SpanKind | Literal["wrapper"]

# Kinds that stand in the profile's paths and own time of their own kind.
OWNERS: frozenset[str] = frozenset({"task", "agent", "step", "tool", "model", "human"})

Order = tuple[int, str, str]


class Node:
    """One span in the tree. Times are the span's own; clipping happens where time is given out."""

    __slots__ = ("call", "children", "end", "error", "kind", "parent", "span", "start", "title", "tool")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.start: int = span.start_ns
        self.end: int = span.start_ns if span.end_ns is None else max(span.end_ns, span.start_ns)
        self.kind: NodeKind = span.kind
        self.title: str = span.title or span.name
        self.error: bool = span.error
        self.call: Call | None = span.call
        self.tool: Tool | None = span.tool
        self.parent: Node | None = None
        self.children: list[Node] = []

    @property
    def order(self) -> Order:
        """A total order of the spans of a task: start, then trace id, then span id."""
        return (self.start, self.span.trace_id, self.span.span_id)

    def ancestors(self) -> Iterator[Node]:
        """The nodes above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class Tree:
    """All spans of a task under one root, which stands for the task, and the warnings they gave."""

    def __init__(self, root: Node, nodes: list[Node]) -> None:
        self.root = root
        self.nodes = nodes
        self.warnings: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        """Reported times that cannot be, `field: what is wrong`, and how often."""

    def warn(self, code: str, count: int = 1) -> None:
        """Count a doubt about the numbers."""
        if count:
            self.warnings[code] = self.warnings.get(code, 0) + count

    def faulty(self, faults: Iterable[str]) -> None:
        """Count reported times that cannot be."""
        for fault in faults:
            self.faults[fault] = self.faults.get(fault, 0) + 1

    def of_kind(self, kind: str) -> list[Node]:
        """The nodes of a kind, in their order."""
        return [node for node in self.nodes if node.kind == kind]

    def drop(self, gone: Iterable[Node]) -> None:
        """Take nodes out; what hangs from them hangs from their parents then."""
        leaving = set(map(id, gone))
        if not leaving:
            return
        # Parents come before their children, so that a chain of leaving spans is climbed once.
        for node in self.top_down():
            parent = node.parent
            if parent is not None and id(parent) in leaving:
                node.parent = parent.parent
        self.nodes = [node for node in self.nodes if id(node) not in leaving]
        self.relink()

    def relink(self) -> None:
        """Make the lists of children anew from the parents, in order."""
        self.root.children = []
        for node in self.nodes:
            node.children = []
        root = self.root
        for node in self.nodes:
            if node is not root:
                if node.parent is None:
                    node.parent = root
                node.parent.children.append(node)

    def take_apart(self) -> None:
        """Let the nodes go: as they hold each other they would wait for the garbage collector."""
        for node in self.nodes:
            node.parent = None

    def top_down(self) -> list[Node]:
        """Every node before all that are below it; without the root."""
        order: list[Node] = []
        stack = list(self.root.children)
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.children)
        return order

    def bottom_up(self) -> list[Node]:
        """Every node after all that are below it; without the root."""
        return self.top_down()[::-1]


class Places:
    """Where the nodes of a tree stand in the order from the top: who is above whom is told without climbing.

    Holds while no node is moved.
    """

    def __init__(self, tree: Tree) -> None:
        ordered = [tree.root, *tree.top_down()]
        self._first = {id(node): place for place, node in enumerate(ordered)}
        self._last = dict(self._first)
        for node in reversed(ordered):
            if node.parent is not None:
                above = id(node.parent)
                self._last[above] = max(self._last[above], self._last[id(node)])

    def is_below(self, node: Node, above: Node) -> bool:
        """Whether one stands below the other, at whatever depth; not of a node and itself."""
        return self._first[id(above)] < self._first[id(node)] <= self._last[id(above)]
