"""Errors that OpenAI-like APIs put into a body whose status was 200."""

from __future__ import annotations

import re
from typing import Any

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def error_type(error: Any) -> str:
    """The kind of an error object; never its message, which may quote the prompt."""
    if isinstance(error, dict):
        for key in ("code", "type"):
            value = error.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
                return value
    return "error"
