"""Rates, answers and file size of the DuckDB store as it grows.

python benchmarks/store.py [--tasks 100000] [--db FILE] [--retention]

Tasks have 21 spans: themselves, two steps, twelve model calls and six tools, with ids, prices, phases and
counts of their own. At 1, 10 and 100 % of the tasks it prints what writing and adding up cost, and how long
answers take (median of several). `--retention` then forgets the older half again and again while as much
new arrives, and prints what becomes of the file.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from agentprof.model import Call, Cost, Phase, Span, TaskMark, Tool, Usage
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import ListPlace, Store, TaskFilter, open_store

T0 = 1_790_000_000_000_000_000
SECOND = 1_000_000_000
SPANS_A_TASK = 21
TASKS_AT_ONCE = 240
"""About 5,000 spans: what a busy collector writes in one transaction."""
LAST = 960
"""Tasks whose rate is told apart, as the store is fullest then."""
TIMES = 7
"""Each question is asked so often."""
CUSTOMERS, NAMES = 50, 8
MODELS = ("gpt-4o-2024-08-06", "gpt-4o-mini-2024-07-18", "claude-sonnet-4-20250514", "qwen3:0.6b")


class Rates(NamedTuple):
    """Spans a second, wall and CPU, of the last tasks that were stored."""

    written: float
    written_cpu: float
    added_up: float
    added_up_cpu: float


def task_spans(number: int, chance: random.Random) -> list[Span]:
    """The spans of one task, the n-th of a series in which one starts each second."""
    trace_id, task_id = f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(128):032x}"
    start = T0 + number * SECOND + chance.randrange(SECOND)
    mark = TaskMark(
        id=task_id,
        starts=True,
        name=f"agent {number % NAMES}",
        outcome=chance.choice(["success", "success", "success", "failure", None]),
        labels={"customer": f"customer {chance.randrange(CUSTOMERS)}", "variant": chance.choice("ab")},
        spans=SPANS_A_TASK - 1,
    )
    ids = [f"{chance.getrandbits(64):016x}" for _ in range(SPANS_A_TASK)]
    spans = [
        _span(trace_id, ids[0], None, start, start + 40 * SECOND, task=mark, kind="task", title=mark.name)
    ]
    for at in range(1, SPANS_A_TASK):
        parent = ids[0] if at < 3 else ids[chance.choice([0, 1, 2])]
        begin = start + at * SECOND
        common = {"task": TaskMark(id=task_id), "attributes_count": 20}
        if at < 3:
            spans.append(
                _span(
                    trace_id, ids[at], parent, begin, begin + 30 * SECOND, kind="step", title="plan", **common
                )
            )
        elif at % 3 == 0:
            tool = Tool(
                call_id=f"call_{chance.getrandbits(64):x}", fingerprint=f"{chance.getrandbits(64):016x}"
            )
            end = begin + chance.randrange(SECOND)
            spans.append(
                _span(trace_id, ids[at], parent, begin, end, kind="tool", title="search", tool=tool, **common)
            )
        else:
            end = begin + chance.randrange(SECOND // 2, 2 * SECOND)
            call = _call(end - begin, chance)
            spans.append(
                _span(
                    trace_id,
                    ids[at],
                    parent,
                    begin,
                    end,
                    kind="model",
                    title=str(call.model),
                    call=call,
                    **common,
                )
            )
    return spans


def _span(trace_id: str, span_id: str, parent_id: str | None, start: int, end: int, **fields: object) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        start_ns=start,
        end_ns=end,
        scope="agentprof",
        service="shop",
        **fields,  # type: ignore[arg-type]
    )


def _call(length: int, chance: random.Random) -> Call:
    model = chance.choice(MODELS)
    usage = Usage(input=chance.randrange(200, 9_000), output=chance.randrange(900))
    amount = Decimal(usage.input or 0).scaleb(-6) + 4 * Decimal(usage.output or 0).scaleb(-6)
    first = chance.randrange(length // 2)
    known = model != MODELS[-1]
    return Call(
        model=model,
        request_model=model,
        provider="openai",
        server="api.openai.com",
        operation="chat",
        response_id=f"chatcmpl-{chance.getrandbits(120):x}",
        usage=usage,
        cost=Cost(
            amount_usd=amount, by_class_usd={"input": amount}, source="table", priced_as=model, table="1"
        )
        if known
        else Cost(unpriced=("unknown_model",)),
        finish_reasons=("stop",),
        stream=True,
        stream_end="complete",
        attempts=1,
        first_token_ns=first,
        first_content_ns=first,
        phases={
            "wait": Phase(ns=first, source="observed"),
            "generation": Phase(ns=length - first, source="observed"),
        },
        input_bytes={"system": 812, "user": chance.randrange(20_000)},
        fingerprint=f"{chance.getrandbits(64):016x}",
    )


def store_tasks(store: Store, numbers: range, chance: random.Random) -> Rates:
    """Write and add up tasks; the rates of doing so."""
    spans_count, write_s, write_cpu_s, add_s, add_cpu_s = 0, 0.0, 0.0, 0.0, 0.0
    for at in range(numbers.start, numbers.stop, TASKS_AT_ONCE):
        spans = [
            span for n in numbers[at - numbers.start :][:TASKS_AT_ONCE] for span in task_spans(n, chance)
        ]
        pairs = list(pairs_of(spans))
        arrived_ns = max(span.end_ns or 0 for span in spans)
        began, began_cpu = time.perf_counter(), time.process_time()
        store.add_spans(spans, pairs, arrived_ns=arrived_ns)
        written, written_cpu = time.perf_counter(), time.process_time()
        recompute(store, {span.trace_id for span in spans})
        store.set_added_up_to(arrived_ns)
        add_s += time.perf_counter() - written
        add_cpu_s += time.process_time() - written_cpu
        write_s += written - began
        write_cpu_s += written_cpu - began_cpu
        spans_count += len(spans)
    return Rates(*(spans_count / spent_s for spent_s in (write_s, write_cpu_s, add_s, add_cpu_s)))


def questions(store: Store, chance: random.Random) -> Iterator[tuple[str, Callable[[], object]]]:
    """What people and the collector ask."""
    latest = store.tasks(limit=1_000)
    middle = store.tasks(TaskFilter(until_ns=latest[0].start_ns // 2 + T0 // 2), limit=200)
    one = chance.choice(middle)
    recent = [trace_id for summary in latest[:240] for trace_id in summary.trace_ids]
    page = ListPlace(middle[-1].start_ns, middle[-1].task_id)
    tops = TaskFilter(tops=True)
    yield "groups by label", lambda: store.groups(group_by="label.customer")
    yield "one group of all", lambda: store.groups()
    yield (
        "groups of one name and label",
        lambda: store.groups(TaskFilter(name="agent 3", labels={"variant": "a"}), "label.customer"),
    )
    yield "page of 50, latest", lambda: store.tasks(tops, limit=51)
    yield "page of 50, in the middle", lambda: store.tasks(tops, after=page, limit=51)
    yield "page of 50, search in name or id", lambda: store.tasks(TaskFilter(search="NT 5"), limit=51)
    yield "one task: summary", lambda: store.task(one.task_id)
    yield "one task: spans", lambda: store.spans_of(one.trace_ids)
    yield "traces of one task", lambda: store.traces_of([one.task_id])
    yield "spans of 240 recent tasks", lambda: store.spans_of(recent)
    yield "ids that begin with a text", lambda: store.task_ids(one.task_id[:8])


def print_answers(store: Store, chance: random.Random) -> None:
    """How long each question takes."""
    for name, ask in questions(store, chance):
        spent_s, began_cpu = [], time.process_time()
        for _ in range(TIMES):
            began = time.perf_counter()
            ask()
            spent_s.append(time.perf_counter() - began)
        cpu_s = (time.process_time() - began_cpu) / TIMES
        print(
            f"  {name:34} {statistics.median(spent_s) * 1e3:8.1f} ms, least {min(spent_s) * 1e3:8.1f} ms, "
            f"CPU {cpu_s * 1e3:8.1f} ms"
        )


def print_commands(path: Path) -> None:
    """How long the commands take, start of Python and all."""
    with open_store(path, read_only=True) as store:
        task_id = store.tasks(limit=1)[0].task_id
    for arguments in (
        ["--group-by", "label.customer", "--json"],
        ["--json", "--limit", "50"],
        [task_id, "--json"],
    ):
        command = [sys.executable, "-m", "agentprof", "report", "--db", str(path), *arguments]
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, check=True)
        spent_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        shown = " ".join(arguments).replace(task_id, "TASK")
        print(
            f"  agentprof report {shown:34} {spent_s * 1e3:8.0f} ms, CPU {cpu_s * 1e3:8.0f} ms, "
            f"{len(done.stdout):,} bytes"
        )


def print_retention(path: Path, first: int, tasks: int, chance: random.Random) -> None:
    """Forget the older half while as much new arrives."""
    half = tasks // 2
    for round_number in range(3):
        with open_store(path) as store:
            began = time.perf_counter()
            removed = store.forget(T0 + (first + (round_number + 1) * half) * SECOND)
            spent_s = time.perf_counter() - began
            after = size(path)
            store_tasks(
                store,
                range(first + tasks + round_number * half, first + tasks + (round_number + 1) * half),
                chance,
            )
        print(
            f"  round {round_number + 1}: {removed:,} spans forgotten in {spent_s:.1f} s, "
            f"file then {after / 1e6:.0f} MB, with as much new {size(path) / 1e6:.0f} MB"
        )


def size(path: Path) -> int:
    """Bytes of the file and its log."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--db", type=Path)
    parser.add_argument("--retention", action="store_true")
    given = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = given.db or Path(folder) / "store.duckdb"
        stored = 0
        for upto in (given.tasks // share for share in (100, 10, 1)):
            if upto < LAST + TASKS_AT_ONCE:
                continue
            with open_store(path) as store:
                rates = store_tasks(store, range(stored, upto - LAST), chance)
                last = store_tasks(store, range(upto - LAST, upto), chance)
                stored = upto
                print(f"{stored:,} tasks, {stored * SPANS_A_TASK:,} spans")
                for when, found in (("until here", rates), (f"the last {LAST}", last)):
                    print(
                        f"  {when}: written {found.written:,.0f} spans/s ({found.written_cpu:,.0f} a CPU second), "
                        f"added up {found.added_up:,.0f} spans/s ({found.added_up_cpu:,.0f} a CPU second)"
                    )
                print_answers(store, chance)
            print(f"  file: {size(path) / 1e6:.1f} MB, {size(path) / stored / SPANS_A_TASK:.0f} bytes a span")
        print_commands(path)
        if given.retention:
            print_retention(path, 0, stored, chance)


if __name__ == "__main__":
    main()
