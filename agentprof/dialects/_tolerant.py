"""Decoding that loses only what is wrong: a field of an unexpected type is None, the rest is kept."""

from __future__ import annotations

from types import UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class Tolerant(Generic[S]):
    """A decoder of JSON into one struct type, all of whose fields have defaults."""

    def __init__(self, struct: type[S]) -> None:
        self._struct = struct
        self._decode = msgspec.json.Decoder(struct).decode

    def __call__(self, body: bytes) -> S | None:
        """The struct, or None if the bytes are no JSON object."""
        try:
            return self._decode(body)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return _salvage(value, self._struct) if isinstance(value, dict) else None


def _salvage(value: dict[str, Any], struct: type[S]) -> S:
    """Build a struct field by field; what does not fit keeps its default."""
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        if field.encode_name in value:
            found = _fit(value[field.encode_name], field.type)
            if found is not None:
                kept[field.name] = found
    return struct(**kept)


def _fit(value: Any, kind: Any) -> Any:
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(value))
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError):
        pass
    for option in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        if isinstance(option, type) and issubclass(option, msgspec.Struct) and isinstance(value, dict):
            return _salvage(value, option)
        if get_origin(option) is list and isinstance(value, list):
            items = (_fit(item, get_args(option)[0]) for item in value)
            return [item for item in items if item is not None]
    return None
