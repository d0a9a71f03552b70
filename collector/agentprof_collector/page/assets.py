"""The files a page needs beside itself, in memory; their addresses change with their content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

from agentprof._render import COLOURS

_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file as it is sent."""

    content: bytes
    media_type: str
    address: str


@cache
def assets() -> dict[str, Asset]:
    """The files by name."""
    found = {}
    for name, media_type in _TYPES.items():
        content = (resources.files(__package__) / "static" / name).read_bytes()
        if name == "page.css":
            content += _colours().encode()
        version = hashlib.sha256(content).hexdigest()[:12]
        found[name] = Asset(content, media_type, f"/static/{name}?v={version}")
    return found


def address(name: str) -> str:
    """Where a file is."""
    return assets()[name].address


def _colours() -> str:
    """The colours of the parts of a timeline: the same as in a terminal."""
    return "".join(f".p-{name}{{fill:{colour};background:{colour}}}\n" for name, colour in COLOURS.items())
