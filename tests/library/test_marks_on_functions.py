"""Marks around functions of every kind, which stay what they are."""

import asyncio
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.marked_kinds import async_generator, coroutine, generator, plain
from support.recorded import id_of, parent_of, said

import agentprof
from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def test_decorated_functions_work(captured: Captured) -> None:
    """Values come through, arguments too, and a tool has its given cost."""
    assert plain(3) == 6
    assert asyncio.run(coroutine(4)) == 8
    assert list(generator(2)) == [0, 1]

    async def collect() -> list[int]:
        return [number async for number in async_generator(3)]

    assert asyncio.run(collect()) == [0, 1, 2]
    names = [span.name for span in captured.spans]
    assert names == [
        "execute_tool plain",
        "execute_tool fetch",
        "execute_tool inner",
        "execute_tool inner",
        "stretch",
        "stretch",
    ]
    fetch = said(captured.spans[1])
    assert (fetch[attributes.COST], fetch[attributes.COST_SOURCE]) == ("0.002", "given")


@pytest.mark.parametrize("function", [plain, coroutine, generator, async_generator])
def test_decorated_functions_keep_their_kind(function: Callable[..., Any]) -> None:
    """Kind, name, signature and documentation stay, and the function can be pickled by its name."""
    original = function.__wrapped__  # type: ignore[attr-defined]
    assert inspect.isfunction(function)
    for question in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert question(function) == question(original)
    assert inspect.signature(function) == inspect.signature(original)
    assert (function.__name__, function.__doc__) == (original.__name__, original.__doc__)
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_generator_keeps_its_callers_context(captured: Captured) -> None:
    """Between two steps the caller's context is its own; inside, each step is in the generator's."""
    outside = trace.get_current_span()
    running = generator(2)
    next(running)
    assert trace.get_current_span() is outside
    with agentprof.step("elsewhere"):
        next(running)
    assert next(running, None) is None
    inner, second, elsewhere, stretch = captured.spans
    assert parent_of(inner) == parent_of(second) == id_of(stretch)
    assert parent_of(elsewhere) is None
    assert elsewhere.end_time is not None
    assert stretch.end_time is not None
    assert stretch.end_time >= elsewhere.end_time


def test_generators_pass_everything_through(captured: Captured) -> None:
    """Sent values, thrown exceptions and the returned value go through the decorated generator."""

    @agentprof.task("g")
    def echo() -> Iterator[Any]:
        seen = []
        while len(seen) < 3:
            try:
                seen.append((yield len(seen)))
            except ValueError as error:
                seen.append(str(error))
        return seen

    def drive() -> Iterator[Any]:
        return (yield from echo())

    running: Any = drive()
    next(running)
    assert running.send("a") == 1
    assert running.throw(ValueError("b")) == 2
    with pytest.raises(StopIteration) as stopped:
        running.send("c")
    assert stopped.value.value == ["a", "b", "c"]
    assert attributes.TASK_OUTCOME not in said(captured.spans[0])


def test_closed_generators_end(captured: Captured) -> None:
    """A generator that is closed early ends its span then, without an error, and cleans up inside."""
    cleaned = []

    @agentprof.task("g")
    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            cleaned.append(agentprof.current_task())

    @agentprof.task("a")
    async def anumbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            cleaned.append(agentprof.current_task())

    running = numbers()
    next(running)
    running.close()  # type: ignore[attr-defined]

    async def run() -> None:
        arunning = anumbers()
        await anext(arunning)
        await arunning.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
    assert [span.name for span in captured.spans] == ["g", "a"]
    assert [task.name for task in cleaned if task is not None] == ["g", "a"]
    assert all(span.status.status_code is StatusCode.UNSET for span in captured.spans)


def test_an_async_generator_closed_elsewhere(captured: Captured, caplog: pytest.LogCaptureFixture) -> None:
    """A context manager across yields, closed in another asyncio task, breaks nothing and logs nothing."""

    async def numbers() -> AsyncIterator[int]:
        with agentprof.step("across"):
            yield 1
            yield 2

    async def run() -> None:
        running: Any = numbers()
        await anext(running)
        await asyncio.create_task(running.aclose())

    asyncio.run(run())
    assert [span.name for span in captured.spans] == ["across"]
    assert caplog.records == []


def test_classes_are_not_decorated() -> None:
    """A class would lose its type, so it is refused."""
    with pytest.raises(TypeError, match="functions and methods"):
        agentprof.step("s")(int)
