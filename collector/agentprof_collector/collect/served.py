"""What the pages and the API may ask of a collector."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from agentprof.model import EnergyWindow, OutcomeFact
from agentprof_collector.stores import Store


class Served(Protocol):
    """A collector, as seen by what answers people's questions. All methods may be called by any thread."""

    @property
    def store(self) -> Store:
        """For reading only."""

    @property
    def jaeger_url(self) -> str | None:
        """Where the same traces are shown by Jaeger, without a slash at the end."""

    def up_to_date(self, task_ids: Collection[str] | None = None) -> None:
        """Add up what has arrived for these tasks, or for all, before it returns."""

    def record_outcome(self, fact: OutcomeFact) -> None:
        """Keep an outcome, durably, and bring the summary of its task up to date."""

    def record_energy(self, windows: Sequence[EnergyWindow]) -> None:
        """Keep measured energy, durably; the summaries of the tasks of that time follow."""
