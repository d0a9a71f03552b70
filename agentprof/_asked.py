"""What a span says of what was asked: sizes of the sections of a request, and keyed hashes of it.

Hashes are keyed by the task, so that only runs of one task can be compared and nobody can try out texts.
"""

from __future__ import annotations

import functools
import os
import re
from hashlib import blake2b
from types import CodeType
from typing import Any, Final, NamedTuple

import msgspec
from opentelemetry.util.types import AttributeValue

from agentprof import attributes
from agentprof.dialects import Answer, Dialect
from agentprof.dialects._fields import fields_of

_HASH_BYTES: Final = 8
_MAX_HASHED: Final = 16 * 1024 * 1024
"""A larger request is measured, not hashed."""
_MAX_PREFIXES: Final = 8
_HOW_ONLY: Final = ("stream", "stream_options")
"""Fields that change how an answer is delivered, not what is asked."""

ROLE: Final = re.compile(rb'\s*\{\s*"role"\s*:\s*"([a-z]+)"')
"""The role of a message, where it stands first."""
_SECTION_OF_ROLE: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool_results",
    "function": "tool_results",
}
_SECTION_OF_BYTES: Final = {role.encode(): section for role, section in _SECTION_OF_ROLE.items()}

_KEY_BYTES: Final = 16


class Key(NamedTuple):
    """What hashes are made with. It goes only where other processes of the program work for the task."""

    secret: bytes
    id: str
    """Tells it from other keys, as the first part of each hash made with it."""

    @staticmethod
    def of_process() -> Key:
        """What is outside any task is compared within its process."""
        return _PROCESS_KEY


def new_key() -> Key:
    """A key for a task."""
    return key_of(os.urandom(_KEY_BYTES))


def key_of(secret: bytes) -> Key:
    """A key from its bytes."""
    return Key(secret, blake2b(digest_size=4, key=secret).hexdigest())


def key_in(text: object) -> Key | None:
    """A key from its hex; None for anything else."""
    if not isinstance(text, str) or len(text) != 2 * _KEY_BYTES:
        return None
    try:
        return key_of(bytes.fromhex(text))
    except ValueError:
        return None


_PROCESS_KEY: Final = new_key()


class _Item(msgspec.Struct):
    """What tells the section of an item of a conversation."""

    role: str | None = None
    type: str | None = None


class _Message(msgspec.Struct):
    """A message whose content is a list of parts."""

    content: list[msgspec.Raw] | None = None
    parts: list[msgspec.Raw] | None = None


class _Part(msgspec.Struct):
    """What makes a part the result of a tool: its type, or a field of that name."""

    type: str | None = None
    result: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="toolResult")
    response: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="functionResponse")
    response_too: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="function_response")

    @property
    def is_result(self) -> bool:
        return self.type == "tool_result" or bool(self.result or self.response or self.response_too)


class _Tools(msgspec.Struct):
    """What holds several tools."""

    tools: list[msgspec.Raw] | None = None
    declarations: list[msgspec.Raw] | None = msgspec.field(default=None, name="functionDeclarations")
    declarations_too: list[msgspec.Raw] | None = msgspec.field(default=None, name="function_declarations")


_GROUPED: Final = re.compile(rb'"function(?:D|_d)eclarations"')
_read_tools: Final = msgspec.json.Decoder(_Tools).decode
_items_of: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_item: Final = msgspec.json.Decoder(_Item).decode
_read_content: Final = msgspec.json.Decoder(_Message).decode
_read_part: Final = msgspec.json.Decoder(_Part).decode


def say_request(
    said: dict[str, AttributeValue], body: bytes, dialect: Dialect, key: Key | None, model: str | None = None
) -> None:
    """Add sizes of the sections of a request, tools offered, and its hashes; nothing if it is no JSON object.

    Args:
        model: Where the path says it and not the body: the same asked of another model is something else.
        key: Of the task; None: outside any.
    """
    fields = fields_of(body)
    if not fields:
        return
    key = key or _PROCESS_KEY
    digest = _keyed(key.secret).copy()
    sizes: dict[str, int] = {}
    for name in _HOW_ONLY:
        fields.pop(name, None)
    named = fields.pop("model", None)
    if named is not None:
        digest.update(named)
    elif model is not None:
        digest.update(model.encode("utf-8", "replace"))
    for name, section in dialect.sections:
        raw = fields.pop(name, None)
        if raw is not None:
            sizes[section] = sizes.get(section, 0) + len(raw)
            if section == "tools":
                offered = _tools_in(raw)
                if offered is not None:
                    said[attributes.TOOLS_OFFERED] = offered
            elif name == "tool_results":
                from agentprof._tool_ids import results_beside

                _say_results(said, results_beside(raw, key))
            digest.update(name.encode())
            digest.update(raw)
    hashed = len(body) <= _MAX_HASHED
    prefixes: list[str] = []
    conversation = fields.pop(dialect.conversation, None)
    if conversation is not None:
        items = _items(conversation)
        if items is None:
            items = [conversation]
        for item in items:
            section, size = _section_of(item), len(item)
            if section == "user" and dialect.results_in_messages:
                results = _size_of_results(item)
                if results:
                    sizes["tool_results"] = sizes.get("tool_results", 0) + results
                    size -= results
            sizes[section] = sizes.get(section, 0) + size
        if "tool_results" in sizes:
            from agentprof._tool_ids import result_ids

            _say_results(said, result_ids(items, key))
        if hashed:
            prefixes = _prefixes(digest, items)
            said[attributes.FINGERPRINT_PREFIX] = tuple(prefixes)
    for section, size in sizes.items():
        said[attributes.INPUT_BYTES + section] = size
    if hashed:
        for name in sorted(fields):
            digest.update(name.encode())
            digest.update(fields[name])
        # Where nothing but the conversation was asked its last prefix is all of it.
        whole = digest.hexdigest() if fields or not prefixes else prefixes[-1].partition(":")[2]
        said[attributes.FINGERPRINT_REQUEST] = f"{key.id}-{whole}"


def say_tool_calls(said: dict[str, AttributeValue], answer: Answer, key: Key | None) -> None:
    """Add what the tool calls of an answer are known by."""
    from agentprof._tool_ids import asked_ids

    said[attributes.TOOL_CALL_IDS] = asked_ids(answer, key or _PROCESS_KEY)


def _say_results(said: dict[str, AttributeValue], ids: tuple[str, ...]) -> None:
    if ids:
        said[attributes.TOOL_RESULT_IDS] = ids


@functools.lru_cache(maxsize=64)
def _keyed(secret: bytes) -> Any:
    """A hash that has its key, to be copied: that takes a fifth of making one."""
    return blake2b(digest_size=_HASH_BYTES, key=secret)


def _items(raw: msgspec.Raw) -> list[msgspec.Raw] | None:
    try:
        return _items_of(raw)
    except msgspec.DecodeError:
        return None


def _tools_in(raw: msgspec.Raw) -> int | None:
    """How many tools a field offers: a list of them, perhaps of groups, or an object that holds the list."""
    items = _items(raw)
    try:
        if items is None:
            items = _read_tools(raw).tools
            return None if items is None else len(items)
        if _GROUPED.search(raw) is None:
            return len(items)
        groups = [_read_tools(item) for item in items]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return sum(
        1 if (declared := group.declarations or group.declarations_too) is None else len(declared)
        for group in groups
    )


def _section_of(item: msgspec.Raw) -> str:
    found = ROLE.match(item)
    if found is not None:
        return _SECTION_OF_BYTES.get(found[1], "user")
    try:
        read = _read_item(item)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "user"  # a bare text
    if read.role is not None:
        return _SECTION_OF_ROLE.get(read.role, "user")
    if read.type is not None and read.type.endswith(("_output", "_result")):
        return "tool_results"
    return "assistant" if read.type is not None else "user"


def _size_of_results(item: msgspec.Raw) -> int:
    """Bytes of the results of tools that stand in a message of the user."""
    try:
        read = _read_content(item)
        return sum(len(part) for part in read.content or read.parts or () if _read_part(part).is_result)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0  # a bare text


def _prefixes(digest: Any, items: list[msgspec.Raw]) -> list[str]:
    """Hashes of the request up to some of its items, as `items:hash`.

    Taken after the first, the last, and multiples of a power of two: two conversations of any lengths have
    places in common, and one that goes on has the end of the one before it or a place close to it.
    """
    count = len(items)
    step = 1
    while count // step > _MAX_PREFIXES - 2:
        step *= 2
    found = []
    for place, item in enumerate(items, 1):
        digest.update(item)
        if place % step == 0 or place == 1 or place == count:
            found.append(f"{place}:{digest.hexdigest()}")
    return found


# --- arguments of tools --------------------------------------------------------------------------
_MAX_ARGUMENT: Final = 100_000
"""Characters or members of one argument; of larger ones no hash is made."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_PLAIN: Final = (str, int, float, bool, type(None), list, tuple, dict)


def arguments_hash(
    key: Key | None, code: CodeType | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Hash of the arguments of a run; None where they are not plain data, which is not looked into then.

    Args:
        key: Of the task; None: outside any.
        code: Of the function: the object a method belongs to is no argument.
    """
    if args and code is not None and code.co_varnames[:1] in (("self",), ("cls",)):
        args = args[1:]
    for value in (*args, *kwargs.values()):
        if type(value) not in _PLAIN or (hasattr(value, "__len__") and len(value) > _MAX_ARGUMENT):
            return None
    try:
        encoded = _encode((args, kwargs))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    key = key or _PROCESS_KEY
    return f"{key.id}-{blake2b(encoded, digest_size=_HASH_BYTES, key=key.secret).hexdigest()}"
