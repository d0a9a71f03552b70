"""Fields by which a whole answer tells what engine made it: decoded beside the rest, so that nothing is searched."""

from __future__ import annotations

import msgspec


class Telling(msgspec.Struct):
    """Top-level fields that only engines send, present even where their value is null."""

    timings: msgspec.Raw = msgspec.Raw()
    metrics: msgspec.Raw = msgspec.Raw()
    time_info: msgspec.Raw = msgspec.Raw()
    prompt_logprobs: msgspec.Raw = msgspec.Raw()
    kv_transfer_params: msgspec.Raw = msgspec.Raw()
    nvext: msgspec.Raw = msgspec.Raw()
    stats: msgspec.Raw = msgspec.Raw()
    perf_metrics: msgspec.Raw = msgspec.Raw()

    @property
    def tells(self) -> bool:
        """Whether one of them is there."""
        return bool(
            self.timings
            or self.metrics
            or self.time_info
            or self.prompt_logprobs
            or self.kv_transfer_params
            or self.nvext
            or self.stats
            or self.perf_metrics
        )
