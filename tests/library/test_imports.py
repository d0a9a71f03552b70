"""Functions called when a module was imported."""

import importlib
import inspect
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from agentprof import _guard
from agentprof._imports import when_imported

_numbers = itertools.count()


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package nobody has imported, with a module `inner` that counts how often it runs."""
    name = f"imported_later_{next(_numbers)}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("LOADER = __loader__\n\ndef answer():\n    return 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for known in [known for known in sys.modules if known.startswith(name)]:
        del sys.modules[known]


def test_a_module_that_is_imported_later(name: str) -> None:
    """The function is called once, with the module as it is after its import."""
    seen: list[tuple[ModuleType, int]] = []
    when_imported(f"{name}.inner", lambda module: seen.append((module, module.answer())))
    importlib.import_module(name)
    assert seen == []
    inner = importlib.import_module(f"{name}.inner")
    assert seen == [(inner, 42)]
    importlib.reload(inner)
    assert len(seen) == 1


def test_a_module_that_is_there(name: str) -> None:
    """The function is called at once."""
    inner = importlib.import_module(f"{name}.inner")
    seen: list[ModuleType] = []
    when_imported(f"{name}.inner", seen.append)
    assert seen == [inner]


def test_the_module_is_as_without_us(name: str) -> None:
    """Its loader and spec are those of Python, also while it runs, and its source is found."""
    plain = importlib.import_module(name)
    when_imported(f"{name}.inner", lambda module: None)
    inner = importlib.import_module(f"{name}.inner")
    assert type(inner.__loader__) is type(plain.__loader__)
    assert inner.__spec__ is not None
    assert inner.__spec__.loader is inner.__loader__ is inner.LOADER
    assert "return 42" in inspect.getsource(inner.answer)


def test_a_module_that_fails(name: str, tmp_path: Path) -> None:
    """An import that raises does so as without us; the function waits for one that succeeds."""
    file = tmp_path / name / "broken.py"
    file.write_text("raise LookupError('here')\n")
    seen: list[ModuleType] = []
    when_imported(f"{name}.broken", seen.append)
    with pytest.raises(LookupError, match="here"):
        importlib.import_module(f"{name}.broken")
    assert seen == []
    file.write_text("WHOLE = True\n# of another length than before\n")
    importlib.invalidate_caches()
    assert importlib.import_module(f"{name}.broken").WHOLE
    assert len(seen) == 1


def test_a_module_that_is_not_there(name: str) -> None:
    """The import raises what it always does."""
    when_imported(f"{name}.nowhere", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}.nowhere'"):
        importlib.import_module(f"{name}.nowhere")


def test_a_function_that_fails(name: str) -> None:
    """It is counted and does not reach the program; the next one is called all the same."""
    kind = "a module that was imported"
    before = _guard.counts().get(kind, 0)
    seen: list[ModuleType] = []
    when_imported(f"{name}.inner", lambda module: 1 / 0)
    when_imported(f"{name}.inner", seen.append)
    importlib.import_module(f"{name}.inner")
    assert len(seen) == 1
    assert _guard.counts()[kind] == before + 1
    when_imported(f"{name}.inner", lambda module: 1 / 0)
    assert _guard.counts()[kind] == before + 2
