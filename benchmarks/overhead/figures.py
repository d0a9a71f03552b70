"""What subjects add to a call, from the rows that the rounds left."""

from __future__ import annotations

from statistics import median
from typing import Any

from environments import BASE, FLOOR
from rounds import WORKLOADS


def by_round(result: dict, name: str, workload: str, key: str) -> dict[int, float]:
    """One figure of a subject and workload, by the number of the round."""
    return {row["round"]: row[key] for row in result["time"].get(name, {}).get(workload, [])}


def even_out(result: dict) -> None:
    """Add `cpu_even_us`: CPU time scaled by how fast a fixed piece of work ran during the measurement.

    On a shared machine the speed of a CPU changes by a factor of two within minutes.
    """
    rows = [row for work in result["time"].values() for rows in work.values() for row in rows]
    best = min((row["reference_us"] for row in rows), default=0)
    for row in rows:
        row["cpu_even_us"] = row["cpu_us"] * best / row["reference_us"]


def added(result: dict, name: str, workload: str, key: str) -> tuple[float, float] | None:
    """What the subject adds to the plain SDK in the same round: median, and its standard error."""
    mine, base = by_round(result, name, workload, key), by_round(result, BASE, workload, key)
    more = [mine[r] - base[r] for r in set(mine) & set(base)]
    if not more:
        return None
    middle = median(more)
    spread = 1.4826 * median(abs(x - middle) for x in more)  # as the standard deviation, but robust
    return middle, 1.2533 * spread / len(more) ** 0.5


def summary(result: dict) -> dict:
    """The numbers of the time tables: workload -> subject -> figures."""
    out: dict[str, dict] = {}
    for workload in WORKLOADS:
        for name in result["time"]:
            row: dict[str, Any] = {}
            for key in ("cpu_even_us", "cpu_us", "wall_us"):
                mine = list(by_round(result, name, workload, key).values())
                floor = list(by_round(result, FLOOR, workload, key).values())
                if not mine:
                    continue
                more, floor_more = added(result, name, workload, key), added(result, FLOOR, workload, key)
                known = key == "cpu_even_us" and more and floor_more and floor_more[0] > 2 * floor_more[1]
                row[key] = {
                    "median": median(mine),
                    "min": min(mine),
                    "max": max(mine),
                    "added": more and more[0],
                    "error": more and more[1],
                    "ratio": median(mine) / median(floor) if floor else None,
                    "added_ratio": more[0] / floor_more[0] if known else None,
                }
            if row:
                row["spans_per_call"] = median(by_round(result, name, workload, "spans_per_call").values())
                out.setdefault(workload, {})[name] = row
    return out
