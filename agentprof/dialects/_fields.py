"""The top-level fields of a JSON object, without decoding what is in them."""

from __future__ import annotations

import json
from typing import Final

import msgspec

_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fields_of(body: bytes) -> dict[str, msgspec.Raw]:
    """Each field with the bytes of its value; empty if the body is no JSON object."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(body)  # half of a surrogate pair, as a cut text ends in, is fine with this one
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: msgspec.Raw(json.dumps(part).encode()) for name, part in value.items()}


def text_in(raw: msgspec.Raw | None) -> str | None:
    """The string a value is, or None if it is something else."""
    if raw is None or bytes(memoryview(raw)[:1]) != b'"':
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def flag_in(raw: msgspec.Raw | None) -> bool | None:
    """Whether a value is `true`; None where there is none."""
    start = bytes(memoryview(raw)[:4]) if raw is not None else b"null"
    return None if start == b"null" else start == b"true"
