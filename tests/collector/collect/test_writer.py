"""Group commit: what waits together is one write, and is answered when it is durable."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest
from support.collecting import PRICER, json_request, request
from support.watched import Noted, WatchedStore

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof_collector.collect import writer as writing
from agentprof_collector.collect.meters import Meters
from agentprof_collector.collect.writer import Writer
from agentprof_collector.errors import StoreNotWritten
from agentprof_collector.pipeline import Intake
from agentprof_collector.receive.exchange import Answer, Budget, Refused, Request
from agentprof_collector.receive.read import Contents

PATIENCE_S = 30.0
Arrival = tuple[list[str], list[OutcomeFact], int]


class Written:
    """A writer on a store of its own."""

    def __init__(self, **more: object) -> None:
        self.store = WatchedStore()
        self.budget = Budget(100_000_000)
        self.arrivals: Noted[Arrival] = Noted()
        self.meters = Meters()
        self.writer = Writer(
            Intake(self.store, PRICER),
            self.budget,
            self._arrived,
            self.meters,
            **more,  # type: ignore[arg-type]
        )

    def _arrived(
        self,
        spans: Sequence[Span],
        outcomes: Sequence[OutcomeFact],
        windows: Sequence[EnergyWindow],
        arrived_ns: int,
    ) -> None:
        self.arrivals.note(([span.span_id for span in spans], list(outcomes), arrived_ns))

    def submit(self, body: bytes, media: str = "protobuf", encoding: str = "") -> Future[Answer]:
        self.budget.take(len(body))
        return self.writer.submit(Request("traces", media, encoding, body))  # type: ignore[arg-type]

    def submit_behind_another(self, *bodies: bytes) -> list[Future[Answer]]:
        """All of them wait while the first request is being written."""
        self.store.go_on.clear()
        first = self.submit(request(b"first"))
        self.store.writes.wait_for(lambda writes: len(writes) == 1)
        futures = [self.submit(body) for body in bodies]
        assert self.writer.waiting == len(bodies)
        self.store.go_on.set()
        assert first.result(PATIENCE_S) == Answer()
        return futures

    def figure(self, name: str) -> float:
        for line in self.meters.text().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise KeyError(name)


@pytest.fixture
def written() -> Iterator[Written]:
    opened = Written()
    yield opened
    opened.writer.close()
    opened.store.close()


def test_requests_that_wait_together_are_one_write(written: Written) -> None:
    """Each gets its own answer, and all arrived at the same time."""
    futures = written.submit_behind_another(*(request(b"%d" % at) for at in range(20)), request(b"", b"x"))
    answers = [future.result(PATIENCE_S) for future in futures]
    assert written.store.writes.items == [1, 21]
    assert answers[:20] == [Answer()] * 20
    assert answers[20].rejected == 1
    assert len(written.store.spans_of([(b"t" * 16).hex()])) == 22
    assert [len(ids) for ids, _, _ in written.arrivals.items] == [1, 21]
    assert written.figure("agentprof_commit_requests_count") == 2
    assert written.figure("agentprof_spans_stored_total") == 22
    assert written.figure("agentprof_spans_left_out_total") == 1


def test_an_answer_is_given_when_it_is_stored(written: Written) -> None:
    """Not before: while the store writes, the answer is open and its bytes are counted."""
    written.store.go_on.clear()
    future = written.submit(request(b"a"))
    written.store.writes.wait_for(lambda writes: len(writes) == 1)
    assert not future.done()
    assert written.budget.taken_bytes == len(request(b"a"))
    written.store.go_on.set()
    assert future.result(PATIENCE_S) == Answer()
    assert written.budget.taken_bytes == 0


def test_a_group_is_bounded(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its spans, and by its bytes when they are unpacked."""
    monkeypatch.setattr(writing, "SPANS_PER_COMMIT", 3)
    for future in written.submit_behind_another(*(request(b"%d" % at) for at in range(7))):
        future.result(PATIENCE_S)
    assert written.store.writes.items == [1, 3, 3, 1]
    monkeypatch.setattr(writing, "SPANS_PER_COMMIT", 1000)
    monkeypatch.setattr(writing, "BYTES_PER_COMMIT", 100_000)
    large = json_request("ab") + b" " * 60_000
    written.store.go_on.clear()
    futures = [written.submit(gzip.compress(large), "json", "gzip") for _ in range(7)]
    written.store.go_on.set()
    for future in futures:
        future.result(PATIENCE_S)
    assert sum(written.store.writes.items[4:]) == 7
    assert max(written.store.writes.items[4:]) <= 2


def test_a_failing_store_puts_all_off(written: Written, tmp_path: Path) -> None:
    """Nothing of the group is acknowledged or told on; the bytes are given back; then it works again."""
    written.submit(request(b"a")).result(PATIENCE_S)
    written.store.failure = StoreNotWritten(tmp_path, "disk full")
    for future in [written.submit(request(b"%d" % at)) for at in range(5)]:
        error = future.exception(PATIENCE_S)
        assert isinstance(error, Refused)
        assert (error.status, error.headers) == (503, {"retry-after": "1"})
    assert written.writer.failing is not None
    assert "disk full" in written.writer.failing
    assert len(written.arrivals.items) == 1
    assert written.budget.taken_bytes == 0
    assert written.figure("agentprof_commits_failed_total") >= 1
    written.store.failure = None
    assert written.submit(request(b"b")).result(PATIENCE_S) == Answer()
    assert written.writer.failing is None


def test_one_bad_request_costs_no_other(written: Written) -> None:
    """Neither one that cannot be read nor one that breaks the write."""
    bad = request(b"x", trace_id=b"\xee" * 16)
    written.store.refused_trace = "ee" * 16
    futures = written.submit_behind_another(request(b"a"), b"\xff\xff", bad, request(b"b"))
    answers = [future.exception(PATIENCE_S) for future in futures]
    assert (answers[0], answers[3]) == (None, None)
    assert [error.status for error in answers[1:3] if isinstance(error, Refused)] == [400, 500]
    assert str(answers[2]) == "ValueError while storing the spans"
    assert [ids for ids, _, _ in written.arrivals.items[1:]] == [[b"a".hex()], [b"b".hex()]]
    assert written.budget.taken_bytes == 0


def test_a_mistake_in_reading_costs_one_request(written: Written) -> None:
    """The writer goes on, and the text of the error stays inside."""

    def broken() -> Contents:
        raise KeyError("a secret")

    future: Future[Answer] = written.writer._queue(broken, Future())
    assert str(future.exception(PATIENCE_S)) == "KeyError while reading the request"
    assert written.submit(request(b"a")).result(PATIENCE_S) == Answer()


def test_who_gets_a_request_first_may_refuse_it() -> None:
    """Then it is not stored; what is stored is told as it came."""
    came: list[str] = []
    taken: list[str] = []

    def pass_on(sent: Request) -> None:
        came.append(sent.signal)
        if len(came) == 1:
            raise Refused(503, "not now")

    written = Written(pass_on=pass_on, received=lambda spans: taken.extend(span.span_id for span in spans))
    assert str(written.submit(request(b"a")).exception(PATIENCE_S)) == "not now"
    assert written.submit(request(b"b")).result(PATIENCE_S) == Answer()
    assert (came, taken) == (["traces"] * 2, [b"b".hex()])
    written.writer.close()
    written.store.close()


def test_outcomes_go_the_same_way(written: Written) -> None:
    """In the order of arrival."""
    fact = OutcomeFact(task_id="a", outcome="success", recorded_ns=5)
    assert written.writer.keep(Contents(outcomes=[fact])).result(PATIENCE_S) == Answer()
    assert written.store.outcomes_of(["a"]) == [fact]
    assert written.arrivals.items[0][1] == [fact]


def test_what_is_stored_is_told_though_the_rest_is_not(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans whose group is put off for the sake of an outcome are added up, also if nobody sends them again."""

    def full(*arguments: object, **more: object) -> None:
        raise StoreNotWritten(Path("a.duckdb"), "disk full")

    monkeypatch.setattr(written.store, "add_outcomes", full)
    fact = OutcomeFact(task_id="t", outcome="success", recorded_ns=1)
    written.store.go_on.clear()
    first = written.submit(request(b"first"))
    written.store.writes.wait_for(lambda writes: len(writes) == 1)
    together = [written.submit(request(b"a")), written.writer.keep(Contents(outcomes=[fact]))]
    written.store.go_on.set()
    assert first.result(PATIENCE_S) == Answer()
    for future in together:
        refused = future.exception(PATIENCE_S)
        assert isinstance(refused, Refused)
        assert refused.status == 503
    assert [ids for ids, _, _ in written.arrivals.items] == [[b"first".hex()], [b"a".hex()]]
    assert len(written.store.spans_of([(b"t" * 16).hex()])) == 2


def test_each_kind_arrives_at_a_time_of_its_own(written: Written) -> None:
    """In one group: what is known of spans until then says nothing of the outcomes beside them."""
    facts = [OutcomeFact(task_id=f"t{at}", outcome="success", recorded_ns=1) for at in range(3)]
    written.store.go_on.clear()
    futures = [written.submit(request(b"first"))]
    written.store.writes.wait_for(lambda writes: len(writes) == 1)
    futures += [written.writer.keep(Contents(outcomes=[fact])) for fact in facts]
    futures += [written.submit(request(b"%d" % at)) for at in range(2)]
    written.store.go_on.set()
    for future in futures:
        assert future.result(PATIENCE_S) == Answer()
    arrivals = written.arrivals.items
    assert [(len(ids), outcomes) for ids, outcomes, _ in arrivals] == [(1, []), (2, []), (0, facts)]
    assert len({arrived_ns for _, _, arrived_ns in arrivals}) == 3
    assert written.store.arrived_since(arrivals[1][2]) == set()  # outcomes of tasks without a trace
    assert written.store.arrived_since(arrivals[0][2]) == {(b"t" * 16).hex()}


def test_arrival_never_goes_back() -> None:
    """Also where the clock was set back since the database was written."""
    ahead_ns = time.time_ns() + 10**15
    written = Written(last_arrival_ns=ahead_ns)
    for at in range(3):
        written.submit(request(b"%d" % at)).result(PATIENCE_S)
    assert [arrived_ns for _, _, arrived_ns in written.arrivals.items] == [ahead_ns + n for n in (1, 2, 3)]
    assert written.store.arrived_since(ahead_ns) == {(b"t" * 16).hex()}
    written.writer.close()
    written.store.close()


def test_closing_answers_what_waits(written: Written) -> None:
    """And what comes after it is put off."""
    written.store.go_on.clear()
    futures = [written.submit(request(b"%d" % at)) for at in range(5)]
    written.store.writes.wait_for(lambda writes: len(writes) == 1)
    written.store.go_on.set()
    written.writer.close()
    assert [future.result(0) for future in futures] == [Answer()] * 5
    assert not written.writer.is_alive
    late = written.submit(request(b"late")).exception(0)
    assert isinstance(late, Refused)
    assert late.status == 503
    assert written.budget.taken_bytes == 0


def test_a_request_nobody_waits_for_any_more_is_not_stored(written: Written) -> None:
    """Its sender was told that the collector stops."""
    written.store.go_on.clear()
    first = written.submit(request(b"first"))
    written.store.writes.wait_for(lambda writes: len(writes) == 1)
    gone = written.submit(request(b"gone"))
    assert gone.cancel()
    written.store.go_on.set()
    assert first.result(PATIENCE_S) == Answer()
    assert written.submit(request(b"next")).result(PATIENCE_S) == Answer()
    assert [ids for ids, _, _ in written.arrivals.items] == [[b"first".hex()], [b"next".hex()]]
    assert written.budget.taken_bytes == 0
