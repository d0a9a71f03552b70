"""How far the estimates were off where the truth is known; `benchmarks/black_box.py` measures it.

Measured twice on streamed requests to llama.cpp's server with one slot (a model of 135M parameters, prompts of 56 to
3,534 tokens, 1, 2, 4 and 8 at a time), whose own times were hidden: 48 on a quiet machine, and 56 on a busy one that
were made when the method was fixed. Learnt from one half, compared on the other, 100 times divided at random.
"""

from __future__ import annotations

from typing import Final

from agentprof_collector.estimates.waits import CONFIDENCE as CONFIDENCE

ANSWERED: Final = (0.83, 0.94)
"""Share of the waits with an estimate: at the concurrency with the lowest, and at that with the highest."""
HELD: Final = (0.86, 1.00)
"""Share of the intervals of `CONFIDENCE` that held the truth, likewise."""
ERROR_S: Final = (0.01, 2.00)
"""Median distance of the likely queue from the true one, in seconds, likewise."""

WORDS: Final = (
    f"estimated, validated on 104 requests to llama.cpp with one slot only: of the {CONFIDENCE:.0%} intervals "
    f"{HELD[0]:.0%} to {HELD[1]:.0%} held the true queue, whose median error was {ERROR_S[0]:.2f} to "
    f"{ERROR_S[1]:.2f} s"
)
"""Stand beside every estimate."""
