"""The profile as rows: one for each path of names, with what it owns itself and with all below it."""

from __future__ import annotations

from collections.abc import Iterator
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
    """A path of names: what its spans own, and the rows one name longer."""

    __slots__ = ("below", "errors", "inferred_ns", "kind", "own", "path", "runs", "total")

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.runs = 0
        self.inferred_ns = 0
        self.errors = 0
        self.own = Sums()
        self.total = self.own
        """Its own where no row is below."""
        self.below: dict[str, _Row] = {}

    def child(self, node: Node) -> _Row:
        """The row of a node that stands below this row's nodes."""
        return self.named(node.title, _row_kind(node))

    def named(self, name: str, kind: str) -> _Row:
        """The row of a name below this row's; the first of a path says its kind."""
        row = self.below.get(name)
        if row is None:
            row = self.below[name] = _Row((*self.path, name), kind)
        return row

    def add_up(self) -> None:
        """Make the totals of this row and of all below."""
        if self.below:
            self.total = Sums()
            self.total.add(self.own)
            for row in self.below.values():
                row.add_up()
                self.total.add(row.total)


def node_rows(tree: Tree, profile: Profile, *, lacks_spans: bool = False) -> list[NodeRow]:
    """One row a path of names, parents before children, the row with the most time first.

    Args:
        lacks_spans: Calls of the task may be missing.
    """
    top = _Row((tree.root.title,), _row_kind(tree.root))
    top.own.cost_complete = not lacks_spans
    _count(top, tree.root, profile)
    rows = {id(tree.root): top}
    for node in tree.top_down():
        row = rows[id(node.parent)]
        if node.kind in OWNERS:
            if len(row.path) >= DEPTH_LIMIT:
                tree.warn("deep_nesting")
            else:
                row = row.below.get(node.title) or row.child(node)
            _count(row, node, profile)
        rows[id(node)] = row
    for tool in profile.inferred:
        row = rows[id(tool.row)]
        if len(row.path) < DEPTH_LIMIT:
            row = row.named(tool.name, "tool")
        ns = tool.end - tool.start
        row.own.path_ns += ns
        row.own.busy_ns += ns
        row.inferred_ns += ns
    top.add_up()
    return [_node_row(row) for row in _in_order(top)]


def _node_row(row: _Row) -> NodeRow:
    own = row.own.totals()
    total = own if row.total is row.own else row.total.totals()
    return NodeRow(
        path=list(row.path),
        kind=row.kind,
        runs=row.runs,
        errors=row.errors,
        self=own,
        total=total,
        inferred_ns=row.inferred_ns,
    )


def _in_order(row: _Row) -> Iterator[_Row]:
    """The row and all below: of rows below one another the most time first, then the name."""
    yield row
    for below in sorted(row.below.values(), key=lambda below: (-below.total.path_ns, below.path)):
        yield from _in_order(below)


def paths_of(tree: Tree) -> dict[int, Path]:
    """The path of names of every node, by id; past the limit that of the last row above."""
    paths: dict[int, Path] = {}
    for node in [tree.root, *tree.top_down()]:
        above: Path = paths[id(node.parent)] if node.parent is not None else ()
        is_named = node.kind in OWNERS and len(above) < DEPTH_LIMIT
        paths[id(node)] = (*above, node.title) if is_named else above
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
