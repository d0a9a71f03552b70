"""agentprof.yaml: prices and energy that a user knows better than any table. Read once into a frozen `Config`.

Every scalar is read as text and only then as a number or a date, so that a price keeps the digits it was
written with.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Hashable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

import msgspec
import yaml

from agentprof.energy.given import EnergyRate, GpuHours, Range
from agentprof.model import MEDIA

CONFIG_VARIABLE = "AGENTPROF_CONFIG"
"""Environment variable that names the file where no path is given."""

DEFAULT_NAME = "agentprof.yaml"
"""Read from the working directory where neither a path nor the variable names a file."""

_MAX = 10**9
_PLACES = 60
_SHOWN = 80

T = TypeVar("T", bound=msgspec.Struct)


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names file, key, what was expected and what came."""


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What a model costs. Prices are USD per million tokens; of the entries that match the first holds."""

    provider: str = "*"
    """Pattern with `*` and `?`, in any case, for the provider as the span names it or as the table does."""
    model: str = "*"
    """Pattern for the model, with or without a prefix like `openai/`."""
    input: Decimal | None = None
    """Input neither read from nor written to a cache."""
    output: Decimal | None = None
    cache_read: Decimal | None = None
    """None: the price of input."""
    cache_write: Decimal | None = None
    """None: the price of input."""
    cache_write_1h: Decimal | None = None
    """Cache writes kept for an hour. None: the price of other cache writes."""
    reasoning: Decimal | None = None
    """None: the price of output."""
    input_audio: Decimal | None = None
    """Sound in the input. None, as for the next: the price of input or output."""
    input_image: Decimal | None = None
    output_audio: Decimal | None = None
    output_image: Decimal | None = None
    server_tools: dict[str, Decimal] = {}
    """USD per use of a tool that runs at the provider, by kind (`web_search`, ...)."""
    from_: date | None = None
    """First day (UTC) of the price."""
    until: date | None = None
    """First day (UTC) on which it no longer holds."""

    def __post_init__(self) -> None:
        if (self.input is None) != (self.output is None):
            given, missing = ("output", "input") if self.input is None else ("input", "output")
            msg = f"`{given}` needs `{missing}` beside it (0 where nothing is charged)"
            raise ValueError(msg)
        if self.input is None:
            for name in ("cache_read", "cache_write", "cache_write_1h", "reasoning", *MEDIA):
                if getattr(self, name) is not None:
                    msg = f"`{name}` needs `input` and `output` beside it"
                    raise ValueError(msg)
            if not self.server_tools:
                msg = "an entry needs `input` and `output`, or `server_tools`"
                raise ValueError(msg)
        if self.provider == self.model == "*":
            msg = "an entry needs `provider` or `model`"
            raise ValueError(msg)
        if self.from_ is not None and self.until is not None and self.from_ >= self.until:
            msg = f"`until` must be after `from`, got {self.from_} and {self.until}"
            raise ValueError(msg)


class SelfHosted(msgspec.Struct, frozen=True, kw_only=True):
    """What an own machine costs. A call costs its duration, without back-offs, at this rate."""

    server: str = "*"
    """Pattern for the address of the endpoint, `host` or `host:port`."""
    model: str = "*"
    """Pattern for the model."""
    usd_per_hour: Decimal
    slots: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Calls the machine serves at once: a call pays for one slot."""

    def __post_init__(self) -> None:
        if self.server == self.model == "*":
            msg = "an entry needs `server` or `model`"
            raise ValueError(msg)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a user writes in agentprof.yaml."""

    prices: tuple[ModelPrice, ...] = ()
    tools: dict[str, Decimal] = {}
    """USD per run of a tool, by pattern for its name; the first that matches holds."""
    self_hosted: tuple[SelfHosted, ...] = ()
    energy: tuple[EnergyRate, ...] = ()
    gpu_hours: tuple[GpuHours, ...] = ()

    @property
    def version(self) -> str:
        """Names the prices: equal ones have equal versions, whatever else the file says."""
        return _version({"prices": self.prices, "tools": self.tools, "self_hosted": self.self_hosted})

    @property
    def energy_version(self) -> str:
        """Names the rates of energy."""
        return _version(self.energy)


def _version(content: Any) -> str:
    return f"{DEFAULT_NAME} {hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:12]}"


def load_config(path: str | Path | None = None) -> Config:
    """The configuration at `path`, else where AGENTPROF_CONFIG says, else ./agentprof.yaml, else the default.

    Raises:
        ConfigError: the file named by `path` or the variable is missing, or a file cannot be used.
    """
    if path is None:
        path = os.environ.get(CONFIG_VARIABLE) or None
        named_by = f" (named by {CONFIG_VARIABLE})"
        if path is None and not Path(DEFAULT_NAME).is_file():
            return Config()
        if path is None:
            path, named_by = DEFAULT_NAME, ""
    else:
        named_by = ""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError as error:
        msg = f"{path}: there is no such file{named_by}"
        raise ConfigError(msg) from error
    except (OSError, ValueError, RuntimeError) as error:
        # There may be no text, a NUL in the path, a home that is not there.
        msg = f"{path}: cannot be read{named_by}: {error}"
        raise ConfigError(msg) from error
    return parse_config(text, str(path))


def parse_config(text: str, file: str = DEFAULT_NAME) -> Config:
    """The configuration in a YAML text; `file` is what errors call it.

    Raises:
        ConfigError: the text is no YAML, has a key nobody reads, or a value of the wrong kind.
    """
    try:
        content = yaml.load(text, Loader=_TextLoader)
    except yaml.YAMLError as error:
        msg = f"{file}: {_yaml_problem(error)}"
        raise ConfigError(msg) from error
    except RecursionError as error:
        msg = f"{file}: it is nested too deeply"
        raise ConfigError(msg) from error
    try:
        return Config() if content is None else _struct(content, Config, "")
    except _Invalid as error:
        where, what = error.args
        msg = f"{file}: {where}: {what}" if where else f"{file}: {what}"
        raise ConfigError(msg) from error


class _TextLoader(yaml.SafeLoader):
    """Reads every plain scalar but null as text, and refuses a key that is written twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (replaces the class attribute of the loader)
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    "expected a name before the colon, got a list or keys and values",
                    key.start_mark,
                )
            if key.value in seen and key.tag == "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key `{key.value}` is written twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Invalid(Exception):
    """(where in the file, what is wrong)."""


def _struct(content: Any, kind: type[T], where: str) -> T:
    if not isinstance(content, Mapping):
        raise _Invalid(where, f"expected keys and values, got {_shown(content)}")
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key not in fields:
            close = difflib.get_close_matches(str(key), fields, n=1, cutoff=0.0)
            raise _Invalid(_join(where, key), f"no such key; the closest known one is `{close[0]}`")
        # An empty value leaves the default, as if the key were commented out.
        if value is not None:
            values[fields[key].name] = _value(value, fields[key].type, _join(where, key))
    for field in fields.values():
        if field.required and field.name not in values:
            raise _Invalid(where, f"`{field.encode_name}` is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise _Invalid(where, str(error)) from error


def _value(value: Any, kind: Any, where: str) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise _Invalid(where, f"expected a list of entries, got {_shown(value)}")
        return tuple(_struct(item, kind.__args__[0], f"{where}[{i}]") for i, item in enumerate(value))
    if get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            raise _Invalid(where, f"expected names with a price each, got {_shown(value)}")
        return {str(key): _value(item, Decimal, _join(where, key)) for key, item in value.items()}
    if kind == Range | None:
        return _range(value, where)
    try:
        found = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _Invalid(where, f"expected {_expected(kind)}, got {_shown(value)}") from error
    if isinstance(found, Decimal) and not _is_amount(found):
        raise _Invalid(where, f"expected {_expected(kind)}, got {_shown(value)}")
    return found


def _range(value: Any, where: str) -> Range:
    """A number, or two of them with the smaller first."""
    given = value if isinstance(value, list) else [value, value]
    try:
        low, high = (msgspec.convert(bound, Decimal, strict=False) for bound in given)
    except (msgspec.ValidationError, ValueError) as error:
        raise _Invalid(where, f"expected {_expected(Range)}, got {_shown(value)}") from error
    if not (_is_amount(low) and _is_amount(high)):
        raise _Invalid(where, f"expected {_expected(Range)}, got {_shown(value)}")
    try:
        return Range(low, high)
    except ValueError as error:
        raise _Invalid(where, str(error)) from error


def _is_amount(number: Decimal) -> bool:
    """Zero or more, with so few digits that what is made of it can be written out."""
    places = number.as_tuple().exponent
    return isinstance(places, int) and 0 <= number <= _MAX and -_PLACES <= places <= _PLACES


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


def _expected(kind: Any) -> str:
    if kind is str:
        return "a text"
    if kind is Range:
        return "a number such as 0.3 or two of them, [low, high]"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(kind.__args__)}"
    if kind in (Decimal, Decimal | None):
        return "an amount in USD such as 0.15"
    if kind == date | None:
        return "a date such as 2026-05-01"
    return "a whole number of at least 1"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value)
    return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
