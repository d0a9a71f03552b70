"""The profile as rows: one for each path of names, with what it owns itself and with all below it."""

from __future__ import annotations

from decimal import Decimal

from agentprof.rollup.profile import Profile, on_timeline
from agentprof.rollup.tree import OWNERS, Node, Tree
from agentprof.summary import BUSY, TOKENS, NodeRow, NodeTotals, Tokens

DEPTH_LIMIT = 64
"""Names in a path; what is nested deeper counts in the last row above."""

Path = tuple[str, ...]


class Sums:
    """Running sums of what rows and totals share."""

    def __init__(self) -> None:
        self.path_ns = 0
        self.busy_ns = 0
        self.calls = 0
        self.tokens: Tokens = dict.fromkeys(TOKENS)
        self.cost_usd: Decimal | None = None

    def add_tokens(self, tokens: Tokens) -> None:
        """Add counts; a class nobody reported stays None."""
        for name, count in tokens.items():
            if count is not None:
                self.tokens[name] = (self.tokens[name] or 0) + count

    def add_cost(self, amount: Decimal | None) -> None:
        """Add an amount; unknown adds nothing."""
        if amount is not None:
            self.cost_usd = amount if self.cost_usd is None else self.cost_usd + amount

    def add(self, other: Sums) -> None:
        """Add everything of another row."""
        self.path_ns += other.path_ns
        self.busy_ns += other.busy_ns
        self.calls += other.calls
        self.add_tokens(other.tokens)
        self.add_cost(other.cost_usd)

    def totals(self) -> NodeTotals:
        """The sums as part of a summary."""
        return NodeTotals(
            path_ns=self.path_ns,
            busy_ns=self.busy_ns,
            calls=self.calls,
            tokens=dict(self.tokens),
            cost_usd=self.cost_usd,
        )


class _Row:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.runs = 0
        self.errors = 0
        self.own = Sums()
        self.total = Sums()


def node_rows(tree: Tree, profile: Profile) -> list[NodeRow]:
    """One row a path of names, parents before children, the row with the most time first."""
    rows: dict[Path, _Row] = {}
    paths = paths_of(tree)
    for node in [tree.root, *tree.top_down()]:
        if node.kind in OWNERS:
            _count(rows.setdefault(paths[id(node)], _Row(_row_kind(node))), node, profile)
    for path, row in sorted(rows.items(), key=lambda item: len(item[0]), reverse=True):
        row.total.add(row.own)
        if len(path) > 1:
            rows[path[:-1]].total.add(row.total)
    return [
        NodeRow(
            path=list(path),
            kind=row.kind,
            runs=row.runs,
            errors=row.errors,
            self=row.own.totals(),
            total=row.total.totals(),
        )
        for path, row in _in_tree_order(rows)
    ]


def paths_of(tree: Tree) -> dict[int, Path]:
    """The path of names of every node, by id; past the limit that of the last row above."""
    paths: dict[int, Path] = {}
    for node in [tree.root, *tree.top_down()]:
        above: Path = paths[id(node.parent)] if node.parent is not None else ()
        paths[id(node)] = above
        if node.kind in OWNERS:
            if len(above) < DEPTH_LIMIT:
                paths[id(node)] = (*above, node.title)
            else:
                tree.warn("deep_nesting")
    return paths


def busy_of(node: Node, profile: Profile) -> dict[str, int]:
    """Busy time of one span by part: a call's phases without `client`, a tool, step or human stretch whole."""
    if node.kind == "model":
        found: dict[str, int] = {}
        for segment in profile.segments[id(node)]:
            if segment.name != "client":
                part = on_timeline(segment.name)
                found[part] = found.get(part, 0) + segment.ns
        return found
    part = "step" if node.kind == "agent" else node.kind
    return {part: node.end - node.start} if part in BUSY else {}


def tokens_of(node: Node) -> Tokens:
    """The tokens of a call by class; None where not reported."""
    usage = node.call.usage if node.kind == "model" and node.call is not None else None
    return {name: getattr(usage, name) if usage is not None else None for name in TOKENS}


def cost_of(node: Node) -> Decimal | None:
    """What a call or a tool run cost, where known."""
    holder = node.call if node.kind == "model" else node.tool if node.kind == "tool" else None
    return holder.cost.amount_usd if holder is not None and holder.cost is not None else None


def _count(row: _Row, node: Node, profile: Profile) -> None:
    row.runs += 1
    row.errors += node.error
    row.own.path_ns += profile.path_ns[id(node)]
    row.own.busy_ns += sum(busy_of(node, profile).values())
    row.own.calls += node.kind == "model"
    row.own.add_tokens(tokens_of(node))
    row.own.add_cost(cost_of(node))


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
