"""How far the estimates were off where the truth is known; `benchmarks/black_box.py` measures it.

Measured on 48 streamed requests to llama.cpp's server with one slot (a model of 135M parameters on two cores,
prompts of 73 to 3,534 tokens, 1, 2, 4 and 8 at a time), whose own times were hidden: learnt from one half,
compared on the other, 100 times divided at random.
"""

from __future__ import annotations

from typing import Final

from agentprof_collector.estimates.waits import CONFIDENCE as CONFIDENCE

ANSWERED: Final = (0.83, 0.92)
"""Share of the waits with an estimate: that of the concurrency with the lowest, and with the highest."""
HELD: Final = (0.86, 0.99)
"""Share of the intervals of `CONFIDENCE` that held the truth, likewise."""
ERROR_S: Final = (0.05, 0.53)
"""Median distance of the likely queue from the true one, in seconds, likewise."""

WORDS: Final = (
    f"estimated, validated on 48 requests to llama.cpp with one slot only: of the {CONFIDENCE:.0%} intervals "
    f"{HELD[0]:.0%} to {HELD[1]:.0%} held the true queue, whose median error was {ERROR_S[0]:.2f} to "
    f"{ERROR_S[1]:.2f} s"
)
"""Stand beside every estimate."""
