"""What a mark does to functions, and to what they hand out."""

import asyncio
import functools
import gc
import inspect
import types
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

import agentprof
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside", "captured")


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """What decorators written for plain functions make of every function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def coroutine(value: int, /, other: int = 2, *rest: int, named: int, last: int = 5, **more: int) -> Any:
    with agentprof.tool("inner"):
        await asyncio.sleep(0)
    return value, other, rest, named, last, more


def generator(value: int, /, other: int = 2, *rest: int, named: int, last: int = 5, **more: int) -> Any:
    with agentprof.tool("inner"):
        pass
    got = yield value, other, rest, named, last, more
    try:
        yield got
    except ValueError as error:
        yield str(error)
    return "returned"


async def stream(value: int, /, other: int = 2, *rest: int, named: int, last: int = 5, **more: int) -> Any:
    with agentprof.tool("inner"):
        await asyncio.sleep(0)
    got = yield value, other, rest, named, last, more
    try:
        yield got
    except ValueError as error:
        yield str(error)


KINDS = [coroutine, generator, stream]
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((), {"value": 1, "named": 2}),
    ((1, 2), {"other": 3, "named": 2}),
]


async def driven(running: Any) -> list[Any]:
    """Everything that comes out of a coroutine, generator or async generator."""
    if inspect.iscoroutine(running):
        return [await running]
    if inspect.isgenerator(running):
        steps: Any = running
        out = [next(steps), steps.send("sent"), steps.throw(ValueError("thrown"))]
        with pytest.raises(StopIteration) as stopped:
            next(running)
        return [*out, stopped.value.value]
    out = [await anext(running), await running.asend("sent"), await running.athrow(ValueError("thrown"))]
    with pytest.raises(StopAsyncIteration):
        await anext(running)
    return out


@pytest.mark.parametrize(
    "decorate", [lambda function: function, plainly], ids=["itself", "decorated plainly"]
)
@pytest.mark.parametrize("function", KINDS)
def test_what_functions_hand_out_is_measured(
    function: Callable[..., Any], decorate: Callable[..., Any], captured: Captured
) -> None:
    """To its end, with what happens inside in it; types, names and all that passes through stay the same."""
    marked = agentprof.step("stretch")(decorate(function))

    async def both() -> list[list[Any]]:
        given: Any = ((1, 3, 4), {"named": 6, "more": 7})
        native, ours = function(*given[0], **given[1]), marked(*given[0], **given[1])
        assert type(native) is type(ours)
        assert (native.__name__, native.__qualname__) == (ours.__name__, ours.__qualname__)
        return [await driven(native), await driven(ours)]

    native, ours = asyncio.run(both())
    assert native == ours
    outside, inner, stretch = captured.spans
    assert (outside.name, inner.name, stretch.name) == ("execute_tool inner", "execute_tool inner", "stretch")
    assert outside.parent is None
    assert inner.parent is not None
    assert stretch.context is not None
    assert inner.parent.span_id == stretch.context.span_id
    assert inner.end_time is not None
    assert stretch.end_time is not None
    assert stretch.end_time >= inner.end_time
    assert stretch.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("function", KINDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments(function: Callable[..., Any], wrong: Any, captured: Captured) -> None:
    """They raise where they did, with the same words; nothing is left open."""
    args, kwargs = wrong
    marked = agentprof.tool()(function)
    with pytest.raises(TypeError) as native:
        function(*args, **kwargs)
    with pytest.raises(TypeError) as ours:
        marked(*args, **kwargs)
    assert str(ours.value) == str(native.value)
    with agentprof.task("t") as task, pytest.raises(TypeError):
        agentprof.tool()(plainly(function))(*args, **kwargs)
    assert task.summary().tools[function.__name__].errors == 1


@pytest.mark.parametrize("function", KINDS)
def test_parameters_stay(function: Callable[..., Any]) -> None:
    """Signature, defaults and kind are those of the function."""
    marked: Any = agentprof.tool()(function)
    assert inspect.signature(marked, follow_wrapped=False).parameters.keys() == (
        inspect.signature(function).parameters.keys()
    )
    assert [p.kind for p in inspect.signature(marked, follow_wrapped=False).parameters.values()] == [
        p.kind for p in inspect.signature(function).parameters.values()
    ]
    assert (marked.__defaults__, marked.__kwdefaults__) == ((2,), {"last": 5})
    for question in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert question(marked) == question(function)


def test_names_of_ours_as_parameters() -> None:
    """A parameter may be called what we call things."""

    @agentprof.tool()
    def numbers(run: int, run_inner: int, _run: int = 3) -> Iterator[Any]:
        yield run, run_inner, _run

    @agentprof.tool()
    async def anumbers(run: int, run_step: int) -> AsyncIterator[Any]:
        yield run, run_step

    async def collect() -> list[Any]:
        return [item async for item in anumbers(1, 2)]

    assert list(numbers(1, 2)) == [(1, 2, 3)]
    assert asyncio.run(collect()) == [(1, 2)]


def test_what_is_called_like_a_function(captured: Captured) -> None:
    """Objects, partial functions and bound methods whose calls give coroutines are measured to the end."""

    class Agent:
        async def __call__(self) -> str:
            return await self.method()

        async def method(self) -> str:
            await asyncio.sleep(0)
            return "done"

    async def run() -> list[str]:
        return [
            await agentprof.tool("object")(Agent())(),
            await agentprof.tool()(functools.partial(coroutine, 1))(named=2),
            await agentprof.tool()(Agent().method)(),
        ]

    assert asyncio.run(run()) == ["done", (1, 2, (), 2, 5, {}), "done"]
    assert [span.name for span in captured.spans if span.parent is None] == [
        "execute_tool object",
        "execute_tool coroutine",
        "execute_tool method",
    ]


def test_an_exception_inside(captured: Captured) -> None:
    """What leaves a coroutine of a plain function is its failure, and goes on as it is."""
    error = KeyError("k")

    @agentprof.tool()
    @plainly
    async def fail() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        asyncio.run(fail())
    assert caught.value is error
    assert captured.spans[0].status.status_code is StatusCode.ERROR


def test_what_nobody_begins_with(captured: Captured) -> None:
    """It ends when it is dropped; a coroutine that was never awaited is warned of once, by its name."""
    marked = agentprof.tool()(plainly(coroutine))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        marked(1, named=2)
        gc.collect()
    assert [str(warning.message) for warning in caught] == ["coroutine 'coroutine' was never awaited"]
    agentprof.tool()(plainly(generator))(1, named=2)
    agentprof.tool()(plainly(stream))(1, named=2)
    gc.collect()
    assert [span.name for span in captured.spans] == [
        "execute_tool coroutine",
        "execute_tool generator",
        "execute_tool stream",
    ]
    agentprof.tool()(generator)(1, named=2)
    assert len(captured.spans) == 3


def test_what_somebody_else_began_with_is_theirs(captured: Captured) -> None:
    """A generator that runs already is handed out itself."""
    running = generator(1, named=2)
    next(running)

    async def begin() -> Any:
        arunning = stream(1, named=2)
        await anext(arunning)
        assert agentprof.tool("get")(lambda: arunning)() is arunning
        await arunning.aclose()

    asyncio.run(begin())
    assert agentprof.tool("get")(lambda: running)() is running
    assert [span.name for span in captured.named("execute_tool get")] == ["execute_tool get"] * 2


def test_iterable_coroutines() -> None:
    """Generators that may be awaited still may be."""

    @agentprof.tool()
    @types.coroutine
    def old() -> Iterator[None]:
        yield

    made = agentprof.tool()(plainly(old))

    async def run() -> None:
        await old()
        await made()

    asyncio.run(run())


@pytest.mark.parametrize("inside", [True, False])
def test_static_and_class_methods(inside: bool, captured: Captured) -> None:
    """A mark works above and below them, on the class and on its instances."""

    def both(kind: Any) -> Callable[[Any], Any]:
        mark: Any = agentprof.tool()
        return (lambda function: mark(kind(function))) if inside else (lambda function: kind(mark(function)))

    class Agent:
        @both(staticmethod)
        def alone(value: int) -> int:
            return value

        @both(classmethod)
        def of_class(cls, value: int) -> Any:
            return cls, value

        @both(staticmethod)
        async def later(value: int) -> int:
            return value

    class Special(Agent):
        pass

    assert (Agent.alone(1), Agent().alone(2)) == (1, 2)
    assert (Agent.of_class(1), Special().of_class(2)) == ((Agent, 1), (Special, 2))
    assert asyncio.run(Agent.later(3)) == 3
    assert [span.name for span in captured.spans] == [
        *["execute_tool alone"] * 2,
        *["execute_tool of_class"] * 2,
        "execute_tool later",
    ]


def test_the_short_form_on_a_static_method() -> None:
    """`@tool` without parentheses too."""

    class Agent:
        @agentprof.tool
        @staticmethod
        def alone(value: int) -> int:
            return value

    assert Agent().alone(1) == 1


def test_what_a_callable_object_can_do_beside() -> None:
    """Methods stay at hand and work on the object; names of functions are not hidden."""

    @agentprof.tool()
    @functools.cache
    def square(number: int) -> int:
        return number * number

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def __call__(self) -> int:
            self.count += 1
            return self.count

        def reset(self) -> None:
            self.count = 0

        @property
        def twice(self) -> int:
            return 2 * self.count

        @staticmethod
        def unit() -> str:
            return "calls"

    assert [square(3), square(3)] == [9, 9]
    assert square.cache_info().hits == 1  # type: ignore[attr-defined]
    square.cache_clear()  # type: ignore[attr-defined]
    assert square.cache_info().currsize == 0  # type: ignore[attr-defined]
    counter = agentprof.step("count")(Counter())
    assert [counter(), counter()] == [1, 2]
    counter.reset()  # type: ignore[attr-defined]
    assert (counter(), counter.unit()) == (1, "calls")  # type: ignore[attr-defined]
    assert not hasattr(counter, "twice")  # what changes cannot be handed on by a function
    assert agentprof.step("s")(str.upper)("a") == "A"
