"""The clock of our spans: a wall time noted once, then only monotonic differences.

A stamp is a reading of `stamp_ns()`; adding an anchor makes it wall time. Whoever starts a tree of spans
keeps one anchor for all of it, so that a step of the wall clock cannot bend the tree.
"""

from __future__ import annotations

import time

stamp_ns = time.perf_counter_ns


def anchor_ns() -> int:
    """The present distance between wall time (ns since the epoch) and `stamp_ns()`."""
    return time.time_ns() - time.perf_counter_ns()
