"""Checks a value against the part of JSON Schema that our documents use, with no room for unknown fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def misfits(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Where the value is not as the schema says."""
    if "$ref" in schema:
        target: Any = root
        for key in schema["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        yield from misfits(value, target, root, at)
        return
    if "anyOf" in schema:
        tried = [list(misfits(value, one, root, at)) for one in schema["anyOf"]]
        yield from min(tried, key=len) if all(tried) else ()
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if (kind := schema.get("type")) is not None:
        if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{at}: {value!r} is no {kind}"
            return
        if kind == "object":
            yield from _object(value, schema, root, at)
        elif kind == "array" and "items" in schema:
            for number, item in enumerate(value):
                yield from misfits(item, schema["items"], root, f"{at}[{number}]")


def _object(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: lacks {name}"
    more = schema.get("additionalProperties", not known)
    for name, item in value.items():
        if name in known:
            yield from misfits(item, known[name], root, f"{at}.{name}")
        elif isinstance(more, Mapping):
            yield from misfits(item, more, root, f"{at}.{name}")
        elif not more:
            yield f"{at}: has {name}, which no one describes"
