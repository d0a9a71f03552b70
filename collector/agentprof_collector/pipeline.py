"""The whole way of a span, in order: receive → normalise → price → store → roll up.

Start reading here. Each step is one call; the store is the only state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

import msgspec

from agentprof.model import EnergyWindow, OutcomeFact, RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.vocabularies import normalise
from agentprof.vocabularies.content import content_of
from agentprof_collector.receive import Batch
from agentprof_collector.receive.files import read_batches
from agentprof_collector.recompute import Failed, pairs_of, recompute
from agentprof_collector.stores import Store

_SPANS_PER_WRITE = 5_000

_log = logging.getLogger(__name__)


class Understood(NamedTuple):
    """Spans as understood and priced, and how many could not be."""

    spans: list[Span]
    skipped: int


class Intake:
    """The way into one store.

    Args:
        store: where spans and facts are kept.
        pricer: prices calls that nobody has priced yet, once, before they are stored.
        keep_content: whether what was said is kept, of spans whose attributes hold it.
    """

    def __init__(self, store: Store, pricer: Pricer, *, keep_content: bool = False) -> None:
        self._store = store
        self._pricer = pricer
        self._keep_content = keep_content

    def understand(self, received: Sequence[RawSpan]) -> Understood:
        """Normalise and price. A span that breaks what reads it is left out: it must not cost the others."""
        spans: list[Span] = []
        for span in received:
            try:
                understood = self._pricer.price(normalise(span))
                if self._keep_content and (content := content_of(span.attributes)):
                    understood = msgspec.structs.replace(understood, content=content)
                spans.append(understood)
            except Exception as error:  # noqa: BLE001
                _log.warning("a span is left out (%s: %s)", type(error).__name__, error)
        return Understood(spans, len(received) - len(spans))

    def keep(
        self,
        spans: Sequence[Span],
        outcomes: Sequence[OutcomeFact] = (),
        arrived_ns: int | None = None,
        windows: Sequence[EnergyWindow] = (),
    ) -> None:
        """Store, durably before it returns.

        Args:
            arrived_ns: when it came, never less than before; None: now.

        Raises:
            StoreError: nothing of it may count as stored.
        """
        if spans:
            self._store.add_spans(spans, pairs_of(spans), arrived_ns=arrived_ns)
        if outcomes:
            self._store.add_outcomes(outcomes, arrived_ns=arrived_ns)
        if windows:
            self._store.add_windows(windows, arrived_ns=arrived_ns)


class Pipeline:
    """Feeds one store from files, and adds up what was fed.

    Args:
        store: where spans and summaries are kept.
        pricer: see `Intake`.
    """

    def __init__(self, store: Store, pricer: Pricer) -> None:
        self._store = store
        self._intake = Intake(store, pricer)
        self.spans = 0
        """Spans stored by this pipeline, copies included."""
        self.skipped = 0
        """Spans that could not be kept, for want of an identity or a start."""
        self.lost = 0
        """Values left out because they were of a wrong type."""
        self.first_left_out: str | None = None
        """Where the first span or value was left out."""
        self._touched: set[str] = set()

    def read(self, stream: BinaryIO, source: str, written: Callable[[], object] = lambda: None) -> None:
        """Store the spans of a file or stream; summaries follow with `recompute`.

        Args:
            stream: binary.
            source: its name, for errors.
            written: called after every write to the store.

        Raises:
            InputError: a place cannot be read; what could be is stored.
        """
        pending: list[RawSpan] = []
        try:
            for batch in read_batches(stream, source):
                self._count_left_out(batch, source)
                pending.extend(batch.spans)
                if len(pending) >= _SPANS_PER_WRITE:
                    self.accept(pending)
                    pending = []
                    written()
        finally:
            self.accept(pending)

    def accept(self, received: Sequence[RawSpan]) -> None:
        """Normalise, price and store spans, durably before it returns."""
        if not received:
            return
        understood = self._intake.understand(received)
        self._intake.keep(understood.spans)
        self.spans += len(understood.spans)
        self.skipped += understood.skipped
        self._touched.update(span.trace_id for span in understood.spans)

    def _count_left_out(self, batch: Batch, source: str) -> None:
        self.skipped += batch.skipped
        self.lost += batch.lost
        if self.first_left_out is None and batch.line is not None:
            self.first_left_out = f"{source}, line {batch.line:,}"

    def recompute(
        self, failed: Failed | None = None, progress: Callable[[int, int], object] = lambda done, of: None
    ) -> list[str]:
        """Bring the summaries of all tasks up to date that the accepted spans belong to; see `recompute`."""
        todo, self._touched = self._touched, set()
        return recompute(self._store, todo, failed, progress)
