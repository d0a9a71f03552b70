"""Which tool calls an answer asks for, and whose results a request carries, as keyed hashes of their ids."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import Final

import msgspec

from agentprof._asked import ROLE, Key
from agentprof.dialects import Answer
from agentprof.model import NO_ID

_HASH_BYTES: Final = 8
_MAX_RESULTS: Final = 128
_MAX_ITEMS: Final = 512
_NAME_CHARS: Final = 128
_OF_MODEL: Final = ("assistant", "model")
_OF_TOOLS: Final = ("tool", "function")


class _Result(msgspec.Struct):
    """What names the call of which a part of a message is the result."""

    id: str | None = None
    tool_use_id: str | None = None
    use_id_of_bedrock: str | None = msgspec.field(default=None, name="toolUseId")
    name: str | None = None


class _Part(msgspec.Struct):
    """A part of a message of the user; results are told by its type or by a field of that name."""

    type: str | None = None
    tool_use_id: str | None = None
    of_bedrock: _Result | None = msgspec.field(default=None, name="toolResult")
    of_gemini: _Result | None = msgspec.field(default=None, name="functionResponse")
    of_gemini_too: _Result | None = msgspec.field(default=None, name="function_response")


class _Item(msgspec.Struct):
    """An item of a conversation."""

    role: str | None = None
    type: str | None = None
    tool_call_id: str | None = None
    call_id: str | None = None
    name: str | None = None
    tool_name: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    parts: msgspec.Raw = msgspec.Raw()


class _Called(msgspec.Struct):
    """The call a result of Cohere's first version stands beside."""

    call: _Result | None = None


_read_item: Final = msgspec.json.Decoder(_Item).decode
_read_parts: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_part: Final = msgspec.json.Decoder(_Part).decode
_read_called: Final = msgspec.json.Decoder(list[_Called]).decode


def hash_of(key: Key, id: str) -> str:
    """The hash that stands for an id."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES, key=key.secret).hexdigest()


def asked_ids(answer: Answer, key: Key) -> tuple[str, ...]:
    """One for each tool the answer asks for, in their order; of very many the first."""
    ids, places = answer.tool_ids, islice(answer.tool_calls, _MAX_RESULTS)
    return tuple([hash_of(key, ids[place]) if place in ids else NO_ID for place in places])


def result_ids(items: list[msgspec.Raw], key: Key) -> tuple[str, ...]:
    """Of the results that came after the last message of the model, in their order.

    Where calls stand between them as items of their own, without a role, those of earlier turns may be among them.
    """
    found: list[str] = []
    for item in items[: -_MAX_ITEMS - 1 : -1]:
        role = ROLE.match(item)
        if role is not None and role[1].decode() in _OF_MODEL:
            break
        try:
            read = _read_item(item)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a bare text
        if read.role in _OF_MODEL:
            break
        found += _results_of(read, key)
        if len(found) >= _MAX_RESULTS:
            break
    return tuple(found[:_MAX_RESULTS][::-1])


def results_beside(raw: msgspec.Raw, key: Key) -> tuple[str, ...]:
    """Of results in a field of their own, each with its call."""
    try:
        called = _read_called(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    found = [_known_as(key, one.call.id, one.call.name) for one in called if one.call is not None]
    return tuple([known for known in found if known][:_MAX_RESULTS])


def _results_of(read: _Item, key: Key) -> list[str]:
    """Last first."""
    if read.role in _OF_TOOLS:
        id = read.tool_call_id
        known = _known_as(key, id, read.tool_name or (None if id else read.name))
        return [known] if known else []
    if read.type is not None and read.type.endswith(("_output", "_result")):
        known = _known_as(key, read.call_id, None)
        return [known] if known else []
    raw = read.content or read.parts
    if not raw or bytes(memoryview(raw)[:1]) != b"[":
        return []
    return list(_in_parts(raw, key))[::-1]


def _in_parts(raw: msgspec.Raw, key: Key) -> Iterable[str]:
    try:
        parts = _read_parts(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    for part in parts:
        try:
            read = _read_part(part)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        named = read.of_gemini or read.of_gemini_too
        if read.type == "tool_result":
            known = _known_as(key, read.tool_use_id, None)
        elif named is not None:
            known = _known_as(key, named.id, named.name)
        else:
            of_bedrock = read.of_bedrock
            known = _known_as(key, of_bedrock.use_id_of_bedrock, None) if of_bedrock is not None else None
        if known:
            yield known


def _known_as(key: Key, id: str | None, name: str | None) -> str | None:
    """`hash`, `=name`, or both where a program may have made up the id."""
    hashed = hash_of(key, id) if id else ""
    return (f"{hashed}={name[:_NAME_CHARS]}" if name else hashed) or None
