"""Patched functions and decorated ones are functions like those they stand for: inspected, copied, pickled."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import inspect
import multiprocessing
import os
import pickle
import types
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import aiohttp  # noqa: F401
import anthropic  # noqa: F401
import httpcore  # noqa: F401
import httpx  # noqa: F401
import openai
import pytest
import requests  # noqa: F401
from support import marked

from agentprof import _instrument
from agentprof._patching import Patch
from agentprof.testing import Captured, capture

_KINDS = (
    inspect.isfunction,
    inspect.iscoroutinefunction,
    asyncio.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    callable,
)
_NAMES = ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__")


def _looks(function: Any) -> dict[str, Any]:
    """All that inspecting a function tells."""
    found: dict[str, Any] = {kind.__name__ + kind.__module__: kind(function) for kind in _KINDS}
    found |= {name: getattr(function, name) for name in _NAMES}
    found["type"] = type(function)
    found["signature"] = inspect.signature(function)
    found["source"] = inspect.getsource(function)
    found["overloads"] = typing.get_overloads(function)
    return found


@pytest.fixture(scope="module", autouse=True)
def _those_installed() -> None:
    """What may be installed besides, so that it is patched too."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for name in ("botocore.endpoint", "aiobotocore.endpoint", "litellm"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@pytest.fixture
def patched() -> Iterator[list[Patch]]:
    """Everything that is replaced while the process is instrumented."""
    with capture():
        yield list(_instrument._applied)


def test_patched_functions_look_like_the_originals(patched: list[Patch]) -> None:
    """Of every library: kind, names, signature, documentation, source, overloads."""
    assert len(patched) > 25
    modules = {patch.module() for patch in patched}
    assert {module.split(".")[0] for module in modules} >= {
        "openai", "anthropic", "httpx", "httpx2", "httpcore", "aiohttp", "requests", "urllib3", "threading",
    }  # fmt: skip
    for patch in patched:
        now = patch.current()
        assert now is patch.replacement is not patch.original
        assert _looks(now) == _looks(patch.original), patch


def test_patched_functions_are_copied_and_pickled(patched: list[Patch]) -> None:
    """By name, like the originals."""
    for patch in patched:
        if isinstance(patch.owner, types.CellType):
            continue  # inside another function, whose name leads to that one: nor could the original
        function = getattr(patch.owner, patch.name)
        assert copy.copy(function) is function
        assert copy.deepcopy(function) is function
        assert pickle.loads(pickle.dumps(function)) is function, patch


def test_bound_methods_are_as_they_were() -> None:
    """Of a client: equal to themselves, bound, of the same kind."""
    client = openai.OpenAI(api_key="x")
    before = type(client.request), client.request.__self__, repr(client.chat.completions.create)
    with capture():
        assert (type(client.request), client.request.__self__, repr(client.chat.completions.create)) == before
        assert client.request == client.request
        assert isinstance(client.with_options(max_retries=0), openai.OpenAI)
    client.close()


@pytest.mark.parametrize("function", marked.FUNCTIONS, ids=lambda function: function.__qualname__)
def test_decorated_functions_look_like_what_they_decorate(function: Any) -> None:
    """Instrumented or not."""
    bare = _looks(inspect.unwrap(function))
    assert _looks(function) == bare
    with capture():
        assert _looks(function) == bare


@pytest.mark.parametrize("function", marked.FUNCTIONS, ids=lambda function: function.__qualname__)
def test_decorated_functions_are_copied_and_pickled(function: Any) -> None:
    """Instrumented or not, a copy is the function itself."""
    for _ in range(2):
        assert copy.copy(function) is function
        assert copy.deepcopy(function) is function
        assert pickle.loads(pickle.dumps(function)) is function
        with capture():
            assert pickle.loads(pickle.dumps(function)) is function


def _results(pool: ProcessPoolExecutor) -> list[Any]:
    agent = marked.Agent()
    asked: list[Any] = [
        pool.submit(marked.job, 3, twice=True),
        pool.submit(marked.look, "a"),
        pool.submit(marked.search),
        pool.submit(agent.round, 1),
        pool.submit(marked.Agent.fetch, "u"),
    ]
    return [one.result(timeout=60) for one in asked] + list(pool.map(marked.job, [1, 2, 3]))


def _in_pool(method: str, inside: Callable[[], Any] | None = None) -> list[Any]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        return _results(pool)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_decorated_functions_run_in_other_processes(method: str) -> None:
    """Through a pool, forked or spawned, inside a task or not; only this process has spans of this process."""
    expected = [12, "A", ["x"], 2, "u", 2, 4, 6]
    assert _in_pool(method) == expected
    with capture() as captured:
        assert _in_pool(method) == expected
        with marked.agentprof.task("outer"):
            assert _in_pool(method) == expected
    _assert_only(captured, "outer")


def _assert_only(captured: Captured, name: str) -> None:
    assert [span.name for span in captured.spans] == [name]
