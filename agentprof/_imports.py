"""Calls functions right after a module was imported for the first time, without importing it itself.

A finder in front of the others finds what they find, and lends the module a loader that says when it is done.
The module itself only ever shows its own loader.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from agentprof import _guard

OnImport = Callable[[ModuleType], object]

_waiting: dict[str, list[OnImport]] = {}
_searching = threading.local()
"""Has the name whose spec this thread is looking for at the other finders."""


def when_imported(name: str, function: OnImport) -> None:
    """Call a function with a module: now if it is imported already, else once when it is."""
    module = sys.modules.get(name)
    if module is not None:
        _call(function, module)
        return
    _waiting.setdefault(name, []).append(function)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """What `sys.meta_path` holds; sees every import that is not done yet."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _waiting or getattr(_searching, "name", None) == name:
            return None
        import importlib.util

        before = getattr(_searching, "name", None)
        _searching.name = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _searching.name = before
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """The loader of a module; whatever else is asked of it, the original answers."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_loader"], name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        for function in _waiting.pop(module.__name__, ()):
            _call(function, module)


def _call(function: OnImport, module: ModuleType) -> None:
    try:
        function(module)
    except Exception:
        _guard.failed("a module that was imported")


_finder: Any = _Finder()
