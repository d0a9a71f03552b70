"""Replaces attributes of other libraries and puts them back, unless somebody patched on top meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Patch:
    """One replaced attribute of a class or module."""

    owner: Any
    name: str
    original: Any
    replacement: Any

    def apply(self) -> None:
        """Put the replacement in place."""
        setattr(self.owner, self.name, self.replacement)

    def undo(self) -> bool:
        """Put the original back; False if the attribute is no longer ours, which is then left alone."""
        if vars(self.owner).get(self.name) is not self.replacement:
            return False
        setattr(self.owner, self.name, self.original)
        return True
