"""How much was used, as answers say it: what is below zero or beyond any answer is not read."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

_MOST: Final = 10**15
Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
"""A number of tokens."""
FractionalCount = Annotated[float, msgspec.Meta(ge=0, le=_MOST)]
"""The same where it may be written with a fraction of 0."""


def is_count(value: Any) -> bool:
    """Whether a value is how often something was used, and that is not never."""
    return type(value) is int and 0 < value <= _MOST
