"""Whose work it is that runs in threads and processes of pools."""

import asyncio
import multiprocessing
import multiprocessing.pool
import os
import queue
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agentprof
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside", "captured")

FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


def where(*given: Any) -> str | None:
    """The name of the task around this piece of work."""
    task = agentprof.current_task()
    return task.name if task is not None else None


def _executor(pool: Executor) -> Iterator[Callable[[], list[Any]]]:
    yield lambda: [pool.submit(where, 1).result()]
    yield lambda: list(pool.map(where, range(2)))


def _pool(pool: multiprocessing.pool.Pool) -> Iterator[Callable[[], list[Any]]]:
    yield lambda: [pool.apply(where)]
    yield lambda: [pool.apply_async(where, (1,)).get()]
    yield lambda: pool.map(where, range(2))
    yield lambda: pool.map(func=where, iterable=range(2))
    yield lambda: pool.map_async(where, range(2)).get()
    yield lambda: pool.starmap(where, [(1, 2)])
    yield lambda: pool.starmap_async(where, [(1, 2)]).get()
    yield lambda: list(pool.imap(where, range(4), 2))
    yield lambda: list(pool.imap_unordered(where, range(2)))


POOLS: list[Any] = [
    pytest.param(lambda: ThreadPoolExecutor(1), _executor, id="ThreadPoolExecutor"),
    pytest.param(lambda: multiprocessing.pool.ThreadPool(1), _pool, id="ThreadPool"),
]
if FORK is not None:
    POOLS += [
        pytest.param(lambda: ProcessPoolExecutor(1, mp_context=FORK), _executor, id="ProcessPoolExecutor"),
        pytest.param(lambda: FORK.Pool(1), _pool, id="Pool"),
    ]


@pytest.mark.parametrize(("make", "ways"), POOLS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_work_is_whose_it_is(make: Callable[[], Any], ways: Callable[[Any], Any]) -> None:
    """A pool made inside a task runs each piece of work in the task that handed it over, or in none."""
    with agentprof.task("maker"):
        pool = make()
        first = [set(way()) for way in ways(pool)]
    outside = [set(way()) for way in ways(pool)]
    with agentprof.task("other"), agentprof.task("inner"):
        inside = [set(way()) for way in ways(pool)]
    again = [set(way()) for way in ways(pool)]
    pool.__exit__(None, None, None)
    if isinstance(pool, multiprocessing.pool.Pool):
        pool.join()
    count = len(first)
    assert first == [{"maker"}] * count
    assert outside == again == [{None}] * count
    assert inside == [{"inner"}] * count


@pytest.mark.skipif(FORK is None, reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_spans_of_another_process(captured: Captured) -> None:
    """They hang from the span that handed the work over, in its trace, with the task's id."""
    with ProcessPoolExecutor(1, mp_context=FORK) as pool:
        with agentprof.task("first"):
            pool.submit(int).result()
        with agentprof.task("t", id="t-1", labels={"customer": "acme"}), agentprof.step("plan"):
            made = pool.submit(tool_span).result()
    step = captured.named("plan")[0]
    assert step.context is not None
    assert made == ("t-1", step.context.trace_id, step.context.span_id, {"customer": "acme"})


def tool_span() -> Any:
    """A tool run in another process: its task, trace and parent."""
    task = agentprof.current_task()
    assert task is not None
    # The collecting processor came along with the fork.
    opened = agentprof.tool("work").open("")
    assert opened is not None
    span: Any = opened._span
    return task.id, span.context.trace_id, span.parent.span_id, task.labels


@pytest.mark.parametrize(("make", "ways"), POOLS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_values_and_exceptions_of_pools(make: Callable[[], Any], ways: Callable[[Any], Any]) -> None:
    """Arguments, values and exceptions pass through as they are."""
    pool = make()
    with agentprof.task("t"):
        if isinstance(pool, Executor):
            assert pool.submit(int, "ff", base=16).result() == 255
            assert list(pool.map(divmod, [7, 9], [2, 4])) == [(3, 1), (2, 1)]
            failed: Any = pool.submit(int, "no").exception()
        else:
            assert pool.apply(int, ("ff",), {"base": 16}) == 255
            assert pool.starmap(divmod, [(7, 2), (9, 4)], chunksize=2) == [(3, 1), (2, 1)]
            with pytest.raises(ValueError, match="no") as caught:
                pool.map(int, ["no"])
            failed = caught.value
    assert str(failed) == "invalid literal for int() with base 10: 'no'"
    pool.__exit__(None, None, None)
    if isinstance(pool, multiprocessing.pool.Pool):
        pool.join()


def test_the_default_executor_of_a_loop() -> None:
    """Its workers, made by the first task that needs them, do the work of the next one as its own."""

    async def work(name: str) -> set[str | None]:
        with agentprof.task(name):
            loop = asyncio.get_running_loop()
            return {await loop.run_in_executor(None, where), await asyncio.to_thread(where)}

    async def both() -> list[Any]:
        return [await work("first"), await work("second"), await asyncio.to_thread(where)]

    assert asyncio.run(both()) == [{"first"}, {"second"}, None]


def test_a_worker_of_ones_own() -> None:
    """A thread the program starts keeps the task it was started in, whoever gives it work."""
    jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
    results: queue.SimpleQueue[object] = queue.SimpleQueue()

    def serve() -> None:
        while (job := jobs.get()) is not None:
            results.put(job())

    with agentprof.task("first"):
        worker = threading.Thread(target=serve)
        worker.start()
    with agentprof.task("second"):
        jobs.put(where)
        assert results.get() == "first"
    jobs.put(None)
    worker.join()


@pytest.mark.skipif(FORK is None, reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_of_ones_own() -> None:
    """A forked process that the program starts itself carries the task it was started in."""
    assert FORK is not None
    seen = FORK.SimpleQueue()
    with agentprof.task("t"):
        process = FORK.Process(target=lambda: seen.put(where()))
        process.start()
    process.join()
    assert seen.get() == "t"
    seen.close()


def test_processes_that_start_anew(tmp_path: Path) -> None:
    """Work for spawned processes, which need not know agentprof, goes to them as it is."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            from concurrent.futures import ProcessPoolExecutor

            def known(*given):
                return "agentprof" in sys.modules

            if __name__ == "__main__":
                import agentprof
                from agentprof.testing import capture
                spawn = multiprocessing.get_context("spawn")
                with capture(), agentprof.task("t"):
                    with ProcessPoolExecutor(1, mp_context=spawn) as pool, spawn.Pool(1) as other:
                        print(pool.submit(known).result(), other.map(known, [1]))
            """
        )
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("False [False]\n", "", 0)


def test_pools_are_put_back() -> None:
    """Undoing leaves the pools of the standard library as they were."""
    from multiprocessing.process import BaseProcess

    places: list[tuple[Any, str]] = [
        (ThreadPoolExecutor, "submit"),
        (ProcessPoolExecutor, "submit"),
        (threading.Thread, "start"),
        (BaseProcess, "start"),
        *((multiprocessing.pool.Pool, name) for name in ("apply_async", "map", "imap", "starmap_async")),
    ]
    assert [hasattr(getattr(owner, name), "__wrapped__") for owner, name in places] == [True] * 8
    agentprof.uninstrument()
    assert [hasattr(getattr(owner, name), "__wrapped__") for owner, name in places] == [False] * 8
