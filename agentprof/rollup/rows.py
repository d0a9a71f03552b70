"""The profile as rows: one for each path of names, with what it owns itself and with all below it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from operator import attrgetter

from agentprof.rollup.missing import is_whole
from agentprof.rollup.profile import Profile
from agentprof.rollup.tree import OWNERS, Node, Tree
from agentprof.summary import TOKENS, NodeRow, NodeTotals, Tokens

DEPTH_LIMIT = 64
"""Names in a path; what is nested deeper counts in the last row above."""

Path = tuple[str, ...]

_NO_TOKENS: Tokens = dict.fromkeys(TOKENS)
_counts = attrgetter(*TOKENS)


class Sums:
    """Running sums of what rows and totals share."""

    __slots__ = ("busy_ns", "calls", "cost_complete", "cost_usd", "path_ns", "tokens")

    def __init__(self) -> None:
        self.path_ns = 0
        self.busy_ns = 0
        self.calls = 0
        self.tokens: Tokens = _NO_TOKENS.copy()
        self.cost_usd: Decimal | None = None
        self.cost_complete = True

    def add_tokens(self, tokens: Tokens) -> None:
        """Add counts; a class nobody reported stays None."""
        for name, count in tokens.items():
            if count is not None:
                self.tokens[name] = (self.tokens[name] or 0) + count

    def add_tokens_of(self, node: Node) -> None:
        """Add what a call used."""
        usage = node.call.usage if node.kind == "model" and node.call is not None else None
        if usage is not None:
            tokens = self.tokens
            for name, count in zip(TOKENS, _counts(usage)):  # noqa: B905 (both have the same names)
                if count is not None:
                    tokens[name] = (tokens[name] or 0) + count

    def add_cost(self, amount: Decimal | None) -> None:
        """Add an amount; unknown adds nothing."""
        if amount is not None:
            self.cost_usd = amount if self.cost_usd is None else self.cost_usd + amount

    def add(self, other: Sums) -> None:
        """Add everything of another row."""
        self.path_ns += other.path_ns
        self.busy_ns += other.busy_ns
        if other.calls:
            self.calls += other.calls
            self.add_tokens(other.tokens)
        self.add_cost(other.cost_usd)
        self.cost_complete &= other.cost_complete

    def totals(self) -> NodeTotals:
        """The sums as part of a summary."""
        return NodeTotals(
            path_ns=self.path_ns,
            busy_ns=self.busy_ns,
            calls=self.calls,
            tokens=dict(self.tokens),
            cost_usd=self.cost_usd,
            cost_complete=self.cost_complete,
        )


class _Row:
    __slots__ = ("errors", "kind", "own", "runs", "total")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.runs = 0
        self.errors = 0
        self.own = Sums()
        self.total = self.own
        """Its own until a row below adds to it."""


def node_rows(tree: Tree, profile: Profile, *, lacks_spans: bool = False) -> list[NodeRow]:
    """One row a path of names, parents before children, the row with the most time first.

    Args:
        lacks_spans: Calls of the task may be missing.
    """
    rows: dict[Path, _Row] = {}
    nodes = [tree.root, *tree.top_down()]
    paths = _paths(tree, nodes)
    for node in nodes:
        if node.kind in OWNERS:
            path = paths[id(node)]
            row = rows.get(path)
            if row is None:
                row = rows[path] = _Row(_row_kind(node))
            _count(row, node, profile)
    rows[paths[id(tree.root)]].own.cost_complete &= not lacks_spans
    for path, row in sorted(rows.items(), key=lambda item: len(item[0]), reverse=True):
        if len(path) > 1:
            above = rows[path[:-1]]
            if above.total is above.own:
                above.total = Sums()
                above.total.add(above.own)
            above.total.add(row.total)
    return [_node_row(path, row) for path, row in _in_tree_order(rows)]


def _node_row(path: Path, row: _Row) -> NodeRow:
    own = row.own.totals()
    total = own if row.total is row.own else row.total.totals()
    return NodeRow(path=list(path), kind=row.kind, runs=row.runs, errors=row.errors, self=own, total=total)


def paths_of(tree: Tree) -> dict[int, Path]:
    """The path of names of every node, by id; past the limit that of the last row above."""
    return _paths(tree, [tree.root, *tree.top_down()])


def _paths(tree: Tree, top_down: Iterable[Node]) -> dict[int, Path]:
    paths: dict[int, Path] = {}
    for node in top_down:
        above: Path = paths[id(node.parent)] if node.parent is not None else ()
        paths[id(node)] = above
        if node.kind in OWNERS:
            if len(above) < DEPTH_LIMIT:
                paths[id(node)] = (*above, node.title)
            else:
                tree.warn("deep_nesting")
    return paths


def tokens_of(node: Node) -> Tokens:
    """The tokens of a call by class; None where not reported."""
    usage = node.call.usage if node.kind == "model" and node.call is not None else None
    return _NO_TOKENS.copy() if usage is None else dict(zip(TOKENS, _counts(usage), strict=True))


def cost_of(node: Node) -> Decimal | None:
    """What a call or a tool run cost, where known."""
    holder = node.call if node.kind == "model" else node.tool if node.kind == "tool" else None
    cost = holder.cost if holder is not None else None
    return cost.amount_usd if cost is not None else None


def _count(row: _Row, node: Node, profile: Profile) -> None:
    own = row.own
    row.runs += 1
    row.errors += node.error
    own.path_ns += profile.path_ns[id(node)]
    if node.kind == "model":
        own.busy_ns += sum([s.ns for s in profile.segments[id(node)] if s.name != "client"])
        own.calls += 1
        own.add_tokens_of(node)
        own.cost_complete &= is_whole(node.call)
    elif node.kind != "task":
        own.busy_ns += node.end - node.start
    own.add_cost(cost_of(node))


def _row_kind(node: Node) -> str:
    return "step" if node.kind == "human" else str(node.kind)


def _in_tree_order(rows: dict[Path, _Row]) -> list[tuple[Path, _Row]]:
    children: dict[Path, list[Path]] = {}
    for path in rows:
        if len(path) > 1:
            children.setdefault(path[:-1], []).append(path)
    ordered: list[tuple[Path, _Row]] = []
    pending: list[Path] = [path for path in rows if len(path) == 1]
    while pending:
        path = pending.pop()
        ordered.append((path, rows[path]))
        # The last of the list is taken first: the most time, then the name.
        below = sorted(children.get(path, ()), key=lambda p: (-rows[p].total.path_ns, p), reverse=True)
        pending.extend(below)
    return ordered
