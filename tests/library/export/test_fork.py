"""Forks, spawned processes and workers of servers: each process sends its own spans, once, and none hangs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from support.collector_server import CollectorServer, free_port
from support.real_programs import eventually

import agentprof
from agentprof import _export

Run = Callable[..., Any]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def test_a_hundred_forks_while_exporting(run: Run) -> None:
    """A thread makes spans all the time; each child sends its own three and nothing of its parent's."""
    with CollectorServer() as collector:
        made = run(
            """
            agentprof.instrument(endpoint=sys.argv[1])
            stop, made = threading.Event(), 0

            def work():
                global made
                while not stop.is_set():
                    with agentprof.step("parent" + str(made)):
                        made += 1
                    stop.wait(0.0002)

            thread = threading.Thread(target=work)
            thread.start()
            for number in range(100):
                child = os.fork()
                if not child:
                    for one in range(3):
                        with agentprof.step(f"child{number}-{one}"):
                            pass
                    os._exit(0 if agentprof.flush(30) and agentprof.stats().sent == 3 else 1)
                assert os.waitpid(child, 0)[1] == 0, number
            stop.set()
            thread.join()
            print(json.dumps(made))
            """,
            collector.url,
        )
        children = [f"child{number}-{one}" for number in range(100) for one in range(3)]
        parents = [f"parent{number}" for number in range(made)]
        assert sorted(collector.names) == sorted(children + parents)


def test_forks_while_the_spool_is_in_use(run: Run, folder: Any) -> None:
    """Without a collector parent and children write to one folder; all of it is delivered, once."""
    with free_port() as port:
        url = f"http://127.0.0.1:{port}/v1/traces"
        run(
            """
            import logging
            logging.disable()
            agentprof.instrument(endpoint=sys.argv[1])
            for number in range(30):
                with agentprof.step(f"parent{number}"):
                    pass
                child = os.fork()
                if not child:
                    with agentprof.step(f"child{number}"):
                        pass
                    os._exit(0 if agentprof.flush(30) else 1)
                assert os.waitpid(child, 0)[1] == 0, number
            """,
            url,
        )
    with CollectorServer(port) as collector:
        run("agentprof.instrument(endpoint=sys.argv[1])\nwith agentprof.step('last'): pass", url)
        expected = [f"{name}{number}" for name in ("parent", "child") for number in range(30)]
        assert sorted(collector.names) == sorted([*expected, "last"])
    assert os.listdir(folder) == []


def test_forks_while_locks_are_held(run: Run) -> None:
    """Whatever lock of ours another thread holds at that moment, the child can do everything."""
    with CollectorServer() as collector:
        run(
            """
        import logging
        logging.disable()
        from agentprof import _counts, _export, _guard, _instrument, _recent
        agentprof.instrument(endpoint=sys.argv[1])
        with agentprof.task("parent"):
            pass
        assert agentprof.flush(30)
        (export,) = _export._exports
        locks = [
            _guard._lock, _recent._lock, _counts.counts._lock, _instrument._lock,
            export.worker._wake, export.worker.destination._courier._wake,
        ]
        held, go_on = threading.Event(), threading.Event()

        def hold():
            for lock in locks:
                lock.acquire()
            held.set()
            go_on.wait()
            for lock in locks:
                lock.release()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if not child:
            import signal
            signal.alarm(30)
            with agentprof.task("child") as task:
                pass
            _guard.noted("kind", "message")
            done = agentprof.flush(20) and task.summary().name == "child"
            agentprof.uninstrument()
            os._exit(0 if done else 1)
        status = os.waitpid(child, 0)[1]
        go_on.set()
        thread.join()
        assert status == 0, status
        """,
            collector.url,
        )
        assert sorted(collector.names) == ["child", "parent"]


def test_a_fork_waits_for_an_import_of_the_worker(run: Run) -> None:
    """A child would hang at a module that its parent's worker was just importing."""
    with CollectorServer() as collector:
        run(
            """
            import logging
            from agentprof._forking import importing
            order, inside, leave = [], threading.Event(), threading.Event()

            def work():
                with importing():
                    inside.set()
                    leave.wait()
                    logging.getLogger("new")  # imports do this, and logging has a lock for forks itself
                    order.append("imported")

            thread = threading.Thread(target=work)
            thread.start()
            inside.wait()
            threading.Timer(0.2, leave.set).start()
            child = os.fork()
            if not child:
                with importing():  # made anew, whoever held it
                    os._exit(0)
            order.append("forked")
            assert os.waitpid(child, 0)[1] == 0
            assert order == ["imported", "forked"], order
            """
        )
        assert collector.names == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(run: Run, method: str, tmp_path: Any) -> None:
    """Children that simply return have sent their spans, though forked ones skip the functions of atexit."""
    (tmp_path / "workers.py").write_text(
        "import sys, agentprof\n"
        "def work(url, name):\n"
        "    agentprof.instrument(endpoint=url)\n"
        "    with agentprof.step(name):\n"
        "        pass\n"
    )
    with CollectorServer() as collector:
        run(
            """
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor
            sys.path.insert(0, sys.argv[3])
            from workers import work
            context = multiprocessing.get_context(sys.argv[2])
            agentprof.instrument(endpoint=sys.argv[1])
            with agentprof.step("parent"):
                pass
            children = [context.Process(target=work, args=(sys.argv[1], f"p{n}")) for n in range(3)]
            for child in children:
                child.start()
            for child in children:
                child.join(60)
                assert child.exitcode == 0
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                for done in [pool.submit(work, sys.argv[1], f"e{n}") for n in range(4)]:
                    done.result(60)
            """,
            collector.url,
            method,
            tmp_path,
        )
        assert sorted(collector.names) == ["e0", "e1", "e2", "e3", "p0", "p1", "p2", "parent"]


def test_a_prefork_server(run: Run) -> None:
    """Instrumented before it forks, as servers with preloading do; its workers end by sys.exit."""
    with CollectorServer() as collector:
        run(
            """
            agentprof.instrument(endpoint=sys.argv[1])
            children = []
            for number in range(4):
                child = os.fork()
                if not child:
                    with agentprof.step(f"worker{number}"):
                        pass
                    sys.exit(0)
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
            """,
            collector.url,
        )
        assert sorted(collector.names) == [f"worker{number}" for number in range(4)]


def test_a_child_notes_the_time_anew(run: Run) -> None:
    """Its own anchor: the wall clock may have been set since its parent began."""
    assert run(
        """
        from agentprof import _runtime
        agentprof.instrument(endpoint="http://127.0.0.1:9/")
        _runtime.active().anchor_ns = 0
        child = os.fork()
        if not child:
            os._exit(0 if _runtime.active().anchor_ns else 1)
        print(json.dumps(os.waitpid(child, 0)[1] == 0 and _runtime.active().anchor_ns == 0))
        """
    )


def _none_but(before: set[str]) -> bool | None:
    """Whether no thread of ours is there that was not before; None: not yet."""
    return {t.name for t in threading.enumerate() if t.name.startswith("agentprof")} <= before or None


def test_switching_on_and_off_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times on one provider: no thread, no hook of forks, no processor more than the first time."""
    hooks: list[object] = []
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(os, "register_at_fork", lambda **functions: hooks.append(functions))
    with CollectorServer() as collector:

        def once(number: int) -> None:
            agentprof.instrument(tracer_provider=provider, endpoint=collector.url)
            with agentprof.step(str(number)):
                pass
            agentprof.uninstrument()

        once(0)
        processors = _export._processors_of(provider)
        before = {thread.name for thread in threading.enumerate()}
        for number in range(1, 100):
            once(number)
        assert _export._processors_of(provider) == processors
        eventually(lambda: _none_but(before), "the end of the threads")  # they end by themselves
        assert not [t for t in threading.enumerate() if t.name == "agentprof-send"]
        assert collector.names == [str(number) for number in range(100)]
    assert hooks == []
    assert _export._exports == []
