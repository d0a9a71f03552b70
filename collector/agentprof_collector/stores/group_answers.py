"""Groups of tasks from what a database says of their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from agentprof.rollup.many import QUANTILES, GroupSums, Samples
from agentprof.summary import TIMELINE, TOKENS
from agentprof_collector.stores.task_columns import AMOUNTS, ERRORS, KNOWN_SUMS, SUMS, UNPRICED, amount_of

GROUP_COLUMNS: Final = (
    *("key", "tasks", "exact", "success", "failure", "unknown", "wall_ns", "cost_samples", "cost_complete"),
    *(*SUMS, *KNOWN_SUMS, *AMOUNTS),
    *(f"{name}_places" for name in AMOUNTS),
)
"""Of a group: its key, counts, whether all rows are exact, sums (None where nothing is known), most places."""

_EXACT: Final = GROUP_COLUMNS.index("exact")


def group_sums(
    rows: Sequence[Sequence[Any]], walls: Sequence[Sequence[Any]], costs: Sequence[Sequence[Any]]
) -> dict[str | None, GroupSums] | None:
    """The groups, from what the columns say.

    Args:
        rows: `GROUP_COLUMNS` of each group.
        walls: key, rank and wall of tasks in the order of their walls, at least at the ranks of the quantiles.
        costs: key, rank, cost and its places, the same of the tasks whose cost is known; of equal costs in the
            order of lists, as they may be written differently.

    Returns:
        None if the columns do not hold all figures exactly.
    """
    if not all(row[_EXACT] for row in rows):
        return None
    wall_ranks: dict[str | None, dict[int, int]] = {}
    for key, rank, wall_ns in walls:
        wall_ranks.setdefault(key, {})[rank] = wall_ns
    cost_ranks: dict[str | None, dict[int, Decimal | None]] = {}
    for key, rank, cost_usd, places in costs:
        cost_ranks.setdefault(key, {})[rank] = amount_of(cost_usd, places)
    return {
        row[0]: _sums(
            dict(zip(GROUP_COLUMNS, row, strict=True)), wall_ranks.get(row[0], {}), cost_ranks.get(row[0], {})
        )
        for row in rows
    }


def _sums(row: Mapping[str, Any], walls: Mapping[int, int], costs: Mapping[int, Decimal | None]) -> GroupSums:
    cost_usd, wasted_usd = (amount_of(row[name], row[f"{name}_places"]) for name in AMOUNTS)
    return GroupSums(
        tasks=row["tasks"],
        outcomes={outcome: row[outcome] for outcome in ("success", "failure", "unknown")},
        wall_ns=_samples(row["tasks"], row["wall_ns"], walls),
        cost_usd=_samples(row["cost_samples"], cost_usd, costs),
        cost_complete=row["cost_complete"],
        timeline_ns={part: row[f"{part}_ns"] for part in TIMELINE},
        calls=row["calls"],
        attempts=row["attempts"],
        transport_retries=row["transport_retries"],
        errors={what: row[f"{what}_errors"] for what in ERRORS},
        tokens={name: row[f"{name}_tokens"] for name in TOKENS},
        wasted_usd=wasted_usd,
        unpriced={reason: row[f"unpriced_{reason}"] for reason in UNPRICED},
        energy_low_uj=row["energy_low_uj"],
        energy_high_uj=row["energy_high_uj"],
        calls_without_energy=row["calls_without_energy"],
    )


def _samples(n: int, total: Any, by_rank: Mapping[int, Any]) -> Samples:
    ranks = {share: by_rank[max(1, math.ceil(share * n))] for share in QUANTILES} if n else {}
    return Samples(n, total, ranks)
