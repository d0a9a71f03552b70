"""Replaces attributes of other libraries and puts them back, unless somebody patched on top meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Wanted = tuple[str, str, Callable[[Any], Any]]
"""A class of a module, one of its own attributes, and what makes the replacement of the original."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """One replaced attribute of a class or module."""

    owner: Any
    name: str
    original: Any
    replacement: Any

    def apply(self) -> None:
        """Put the replacement in place."""
        setattr(self.owner, self.name, self.replacement)

    def current(self) -> Any:
        """What stands there now."""
        return vars(self.owner).get(self.name)

    def module(self) -> str:
        """Name of the module that is patched."""
        owner = self.owner
        return str(owner.__name__ if isinstance(owner, ModuleType) else owner.__module__)

    def undo(self) -> bool:
        """Put the original back; False if the attribute is no longer ours, which is then left alone."""
        if self.current() is not self.replacement:
            return False
        setattr(self.owner, self.name, self.original)
        return True


def patches_of_function(module: ModuleType, name: str, replace: Callable[[Any], Any]) -> list[Patch]:
    """The patches of a function that a module holds, if it does.

    Where it is defined too: a function that is not found under its own name cannot be pickled.
    """
    original = vars(module).get(name)
    if original is None:
        return []
    replacement = replace(original)
    home = sys.modules.get(original.__module__, module)
    owners = [module] if home is module or vars(home).get(name) is not original else [module, home]
    return [Patch(owner, name, original, replacement) for owner in owners]


def patches_in(module: ModuleType, wanted: Iterable[Wanted]) -> list[Patch]:
    """The wanted patches of a module; what a version of it lacks is not patched."""
    found = []
    for owner_name, name, replace in wanted:
        owner = vars(module).get(owner_name)
        original = vars(owner).get(name) if owner is not None else None
        if original is not None:
            found.append(Patch(owner, name, original, replace(original)))
    return found
