"""How far the estimates were off where the truth is known; `benchmarks/black_box.py` measures it.

Measured twice on streamed requests to llama.cpp's server with one slot (a model of 135M parameters, prompts of 56 to
3,534 tokens, 1, 2, 4 and 8 at a time), whose own times were hidden: 48 on a quiet machine, and 56 on a busy one that
were made when the method of waits was fixed. Learnt from one half, compared on the other, 100 times divided at random.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from agentprof_collector.estimates.waits import CONFIDENCE

Divides = Literal["wait", "model"]
"""What is divided: a wait for the first token, or a whole call without one."""


class Validation(NamedTuple):
    """Figures at the concurrency where they are lowest, and where they are highest, over both measurements."""

    answered: tuple[float, float]
    """Share with an estimate."""
    held: tuple[float, float]
    """Share of the intervals of `CONFIDENCE` that held the truth."""
    error_s: tuple[float, float]
    """Median distance of the likely queue from the true one, in seconds."""


VALIDATED: Final[dict[Divides, Validation]] = {
    "wait": Validation((0.83, 0.94), (0.86, 1.00), (0.01, 2.00)),
    "model": Validation((0.83, 0.94), (0.77, 1.00), (0.01, 1.94)),
}


def _words(found: Validation, what: str) -> str:
    (low, high), (least, most) = found.held, found.error_s
    return (
        f"estimated, validated on 104 requests to llama.cpp with one slot only{what}: of the {CONFIDENCE:.0%} "
        f"intervals {low:.0%} to {high:.0%} held the truth, median error of the queue {least:.2f} to {most:.2f} s"
    )


WORDS: Final[dict[Divides, str]] = {
    "wait": _words(VALIDATED["wait"], ""),
    "model": _words(VALIDATED["model"], ", their first token hidden"),
}
"""Stand beside every estimate."""
