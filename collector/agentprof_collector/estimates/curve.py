"""The shortest wait for a first token by length of the prompt: a low quantile of many waits."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
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
    columns = _columns(sorted(points))
    best, smallest = (0.0, 0.0, 0.0), float("inf")
    for terms in _TERMS:
        factors = _quantile_fit(columns, terms)
        if factors is None or min(factors) < 0:
            continue
        loss = sum(_loss(residual) for residual in _residuals(columns, factors))
        if loss < smallest:
            best, smallest = factors, loss
        if len(terms) == len(factors):
            break  # nothing was held back: no part of the terms does better
    return Curve(best[0] * 1e9, best[1] * 1e6, best[2] * 1e3)


_Columns = tuple[list[float], list[float], list[float]]
_Factors = tuple[float, float, float]


def _columns(points: Sequence[Point]) -> _Columns:
    """The terms of all points, each relative to the time of its point, which is then 1.

    In thousands of tokens and seconds, in which the terms are of similar size.
    """
    per_s = [1e9 / point.ns for point in points]
    thousands = [point.tokens / 1e3 for point in points]
    linear = list(map(mul, thousands, per_s))
    return per_s, linear, list(map(mul, thousands, linear))


def _quantile_fit(columns: _Columns, terms: Sequence[int]) -> _Factors | None:
    """Quantile regression by least squares whose weights follow the residuals; None where it has no solution."""
    chosen = [columns[term] for term in terms]
    weights = [1.0] * len(columns[0])
    found: _Factors | None = None
    for _ in range(_ROUNDS):
        weighted = [list(map(mul, weights, column)) for column in chosen]
        sums = [[sum(map(mul, one, other)) for other in chosen] + [sum(one)] for one in weighted]
        solved = _solve(sums)
        if solved is None:
            return None
        whole = [0.0, 0.0, 0.0]
        for term, factor in zip(terms, solved, strict=True):
            whole[term] = factor
        before, found = found, (whole[0], whole[1], whole[2])
        if before is not None and all(map(_alike, before, found)):
            break
        weights = [_pull(residual) for residual in _residuals(columns, found)]
    return found


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * abs(one)


def _residuals(columns: _Columns, factors: _Factors) -> list[float]:
    constant, linear, quadratic = factors
    return [
        1.0 - one * constant - other * linear - third * quadratic
        for one, other, third in zip(*columns, strict=True)
    ]


def _pull(residual: float) -> float:
    return (SHARE if residual >= 0 else 1 - SHARE) / max(abs(residual), _SMALLEST)


def _loss(residual: float) -> float:
    return residual * (SHARE if residual >= 0 else SHARE - 1)


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
