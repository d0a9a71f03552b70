"""How the current task reaches other threads."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import agentprof
from agentprof.testing import capture


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """The process instrumented."""
    with capture():
        yield


class Recording(threading.Thread):
    """A thread of its own class, with its own `run`."""

    seen: agentprof.Task | None = None

    def run(self) -> None:
        self.seen = agentprof.current_task()


def test_threads_of_every_kind() -> None:
    """A plain thread, one with a `run` of its own, and a timer start inside the task that started them."""
    seen = []
    with agentprof.task("t") as task:
        own = Recording()
        plain = threading.Thread(target=lambda: seen.append(agentprof.current_task()))
        timer = threading.Timer(0, lambda: seen.append(agentprof.current_task()))
        for thread in (own, plain, timer):
            thread.start()
    for thread in (own, plain, timer):
        thread.join()
    assert own.seen is task
    assert seen == [task, task]
    assert "run" not in vars(own)


def test_a_thread_outside_a_task_is_not_touched() -> None:
    """There is nothing to carry, so its `run` is its own."""
    started = threading.Event()
    done = threading.Event()
    thread = threading.Thread(target=lambda: (started.set(), done.wait(30)))
    thread.start()
    started.wait(30)
    assert "run" not in vars(thread)
    done.set()
    thread.join()
    assert agentprof.current_task() is None


def test_a_pool_does_not_remember() -> None:
    """Each piece of work sees the task that submitted it, whatever task its worker was started in."""
    with ThreadPoolExecutor(1) as pool:
        with agentprof.task("first") as first:
            assert pool.submit(agentprof.current_task).result() is first
        assert pool.submit(agentprof.current_task).result() is None
        with agentprof.task("second") as second:
            assert list(pool.map(lambda _: agentprof.current_task(), range(3))) == [second] * 3


def test_results_and_exceptions_of_a_pool() -> None:
    """Arguments, values and exceptions pass through unchanged."""
    error = ValueError("mine")

    def fail() -> None:
        raise error

    with ThreadPoolExecutor(1) as pool, agentprof.task("t"):
        assert pool.submit(divmod, 7, 3).result() == (2, 1)
        assert pool.submit(int, "ff", base=16).result() == 255
        assert pool.submit(fail).exception() is error


def test_a_finished_thread_is_let_go() -> None:
    """No cycle keeps a thread alive after its end."""
    gc.disable()
    try:
        with agentprof.task("t"):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
        gone = weakref.ref(thread)
        del thread
        assert gone() is None
    finally:
        gc.enable()
