"""From a task's spans to a linked tree, and from the plain tree to the task's wall."""

from __future__ import annotations

from collections.abc import Sequence

from agentprof.model import Span
from agentprof.rollup.tree import Node, Tree

# A root of these kinds is one thing the task did, not the task.
_NOT_THE_TASK = frozenset({"model", "tool", "human"})


def linked(spans: Sequence[Span]) -> Tree:
    """The tree of spans without copies, in their order, under a root that stands for the task.

    A span whose parent is missing, or is its own descendant, hangs from the root.
    """
    nodes = [Node(span) for span in spans]
    by_key = {(node.span.trace_id, node.span.span_id): node for node in nodes}
    root = Node(_extent(nodes))
    tree = Tree(root, nodes)
    for node in nodes:
        parent_id = node.span.parent_id
        if parent_id is None:
            continue
        node.parent = by_key.get((node.span.trace_id, parent_id))
        if node.parent is None and not _starts_a_task(node):
            tree.warn("missing_parent")
    for node in on_cycles(nodes):
        node.parent = None
        tree.warn("missing_parent")
    tree.relink()
    return tree


def rooted(tree: Tree, task_id: str) -> None:
    """Choose the span that is the task, if there is one, and hang everything else from it.

    The span that starts the task if exactly one has none of the same task above it, else the only root;
    else the root made by `linked` stays, from the first start to the last end. Where no span says that it
    starts the task, those that name it do, but no call, tool or human stretch: these are what the task did.
    """
    named = [node for node in tree.nodes if node.span.task is not None and node.span.task.id == task_id]
    starts = [node for node in named if _starts_a_task(node)] or [
        node for node in named if node.kind not in _NOT_THE_TASK
    ]
    tops = _without_another_above(tree, starts) if len(starts) > 1 else starts
    only = tops if len(tops) == 1 else tree.root.children
    if len(only) == 1 and only[0].kind not in _NOT_THE_TASK:
        chosen = only[0]
        tree.nodes.remove(chosen)
        for node in tree.nodes:
            if node.parent is tree.root:
                node.parent = chosen
        chosen.kind, chosen.parent, chosen.call, chosen.tool = "task", None, None, None
        tree.root = chosen
    else:
        if tree.nodes:
            tree.root.start, tree.root.end = _bounds(only if len(only) == 1 else tree.nodes)
        first = min(tree.root.children, key=lambda node: node.order, default=None)
        tree.root.title = first.title if first is not None else task_id
    tree.relink()


def _without_another_above(tree: Tree, nodes: list[Node]) -> list[Node]:
    """Those of the nodes that have none of them above."""
    known = set(map(id, nodes))
    below: set[int] = set()
    for node in tree.top_down():
        if node.parent is not None and (id(node.parent) in below or id(node.parent) in known):
            below.add(id(node))
    return [node for node in nodes if id(node) not in below]


def _starts_a_task(node: Node) -> bool:
    return node.span.task is not None and node.span.task.starts


def on_cycles(nodes: list[Node]) -> list[Node]:
    """The nodes that are their own ancestors."""
    if all(node.parent is None or _is_longer(node.parent, node) for node in nodes):
        return []
    state: dict[int, int] = {}
    cyclic: list[Node] = []
    for run, node in enumerate(nodes):
        path: list[Node] = []
        current: Node | None = node
        while current is not None and id(current) not in state:
            state[id(current)] = run
            path.append(current)
            current = current.parent
        if current is not None and state[id(current)] == run and current in path:
            cyclic.extend(path[path.index(current) :])
    return cyclic


def _is_longer(above: Node, below: Node) -> bool:
    """It starts before, or then and ends later: what holds all the way up leads to no cycle."""
    return above.start < below.start or (above.start == below.start and above.end > below.end)


def _bounds(nodes: Sequence[Node]) -> tuple[int, int]:
    return min([node.start for node in nodes]), max([node.end for node in nodes])


def _extent(nodes: Sequence[Node]) -> Span:
    start, end = _bounds(nodes)
    return Span(trace_id=nodes[0].span.trace_id, span_id="", start_ns=start, end_ns=end, kind="task")
