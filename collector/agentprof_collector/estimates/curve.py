"""The shortest wait for a first token by length of the prompt: a low quantile of many waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

SHARE: Final = 0.05
"""Of the waits that may lie below the curve. Least squares would be pulled up by every queue."""

_ROUNDS: Final = 60
_SMALLEST: Final = 1e-4
"""Relative distance from the curve below which a point pulls no harder."""
# Constant, linear, quadratic: attention makes long prompts cost more than their share. The whole curve first.
_TERMS: Final = ((0, 1, 2), (0, 1), (0, 2), (1, 2), (1,), (2,), (0,))


class Point(NamedTuple):
    """A prompt and how long its first token took."""

    tokens: int
    """At least 1."""
    ns: int
    """At least 1."""


class Curve(NamedTuple):
    """`constant + linear·tokens + quadratic·tokens²`, none of them negative, so that it never falls."""

    constant_ns: float
    linear_ns: float
    quadratic_ns: float

    def at(self, tokens: int) -> float:
        """Nanoseconds for a prompt of so many tokens."""
        return self.constant_ns + tokens * (self.linear_ns + tokens * self.quadratic_ns)


def lower_envelope(points: Sequence[Point]) -> Curve:
    """The curve with `SHARE` of the points below it, as near to all of them as that allows.

    Distances are relative to the point, since noise grows with the work. The order of the points is of no
    account.

    Raises:
        ValueError: there are no points.
    """
    if not points:
        raise ValueError("a curve needs points")
    # In thousands of tokens and seconds, in which the terms are of similar size.
    rows = [_row(point) for point in sorted(points)]
    best, smallest = (0.0, 0.0, 0.0), float("inf")
    for terms in _TERMS:
        factors = _quantile_fit(rows, terms)
        if factors is None or min(factors) < 0:
            continue
        loss = _loss(rows, factors)
        if loss < smallest:
            best, smallest = factors, loss
        if len(terms) == len(factors):
            break  # nothing was held back: no part of the terms does better
    return Curve(best[0] * 1e9, best[1] * 1e6, best[2] * 1e3)


_Row = tuple[tuple[float, float, float], float]
_Factors = tuple[float, float, float]


def _row(point: Point) -> _Row:
    """The terms of a point, all relative to its time, which is then 1."""
    seconds, thousands = point.ns / 1e9, point.tokens / 1e3
    return (1 / seconds, thousands / seconds, thousands * thousands / seconds), seconds


def _quantile_fit(rows: Sequence[_Row], terms: Sequence[int]) -> _Factors | None:
    """Quantile regression by least squares whose weights follow the residuals; None where it has no solution."""
    size = len(terms)
    weights = [1.0] * len(rows)
    found: _Factors | None = None
    for _ in range(_ROUNDS):
        sums = [[0.0] * (size + 1) for _ in range(size)]
        for (values, _), weight in zip(rows, weights, strict=True):
            for at, term in enumerate(terms):
                weighted = weight * values[term]
                line = sums[at]
                for other in range(size):
                    line[other] += weighted * values[terms[other]]
                line[size] += weighted
        solved = _solve(sums)
        if solved is None:
            return None
        whole = [0.0, 0.0, 0.0]
        for term, factor in zip(terms, solved, strict=True):
            whole[term] = factor
        before, found = found, (whole[0], whole[1], whole[2])
        if before is not None and all(map(_alike, before, found)):
            break
        weights = [_pull(_residual(values, found)) for values, _ in rows]
    return found


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * abs(one)


def _residual(values: Sequence[float], factors: _Factors) -> float:
    return 1.0 - values[0] * factors[0] - values[1] * factors[1] - values[2] * factors[2]


def _pull(residual: float) -> float:
    return (SHARE if residual >= 0 else 1 - SHARE) / max(abs(residual), _SMALLEST)


def _loss(rows: Sequence[_Row], factors: _Factors) -> float:
    residuals = [_residual(values, factors) for values, _ in rows]
    return sum(residual * (SHARE if residual >= 0 else SHARE - 1) for residual in residuals)


def _solve(sums: list[list[float]]) -> list[float] | None:
    """Solve linear equations, right-hand side last; None where they have no single solution."""
    size = len(sums)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(sums[row][at]))
        if abs(sums[pivot][at]) < 1e-12 * max(1.0, max(abs(value) for value in sums[pivot])):
            return None
        sums[at], sums[pivot] = sums[pivot], sums[at]
        for row in range(size):
            if row != at:
                factor = sums[row][at] / sums[at][at]
                for column in range(at, size + 1):
                    sums[row][column] -= factor * sums[at][column]
    return [sums[at][size] / sums[at][at] for at in range(size)]
