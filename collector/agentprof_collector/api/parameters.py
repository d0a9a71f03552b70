"""The parameters of the API: each described once, for the document and for the reading of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, get_args

from agentprof._format import cut, printable
from agentprof_collector.api.answers import Refused
from agentprof_collector.reports import asked
from agentprof_collector.reports.selection import GROUPS, GROUPS_MOST, By, RatesBy

TEXT_LIMIT = 4096
"""Characters of an id or of any other text in a request; what is stored is shorter."""
_LABELS = 32
_QUOTED = 60
_OUTCOMES = ("success", "failure", "unknown")


class Parameter(NamedTuple):
    """Something that may be asked for."""

    name: str
    description: str
    schema: dict[str, Any]
    """Of one value, as in JSON Schema."""
    read: Callable[[str], Any]
    """Raises ValueError with what was expected."""
    most: int = 1
    """How often it may be given; what may be given several times is read into a list."""
    required: bool = False


def _text(text: str) -> str:
    return text


def one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    """Reads one of some words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return text

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and low <= int(text) <= high):
            raise ValueError(f"expected a whole number from {low:,} to {high:,}")
        return int(text)

    return read


def limit(default: int, most: int, what: str) -> Parameter:
    """How many rows are answered at most."""
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter("limit", f"How many {what} at most.", schema, _whole(1, most))


_STRING = {"type": "string", "maxLength": TEXT_LIMIT}
_MOMENT = (
    "a time back from now (`90m`, `24h`, `7d`), a date and time (`2026-11-30T12:00:00Z`), "
    "or nanoseconds since 1970"
)

FILTERS = (
    Parameter("name", "Only tasks of this name.", _STRING, _text),
    Parameter(
        "outcome",
        "Only tasks that ended so.",
        {"type": "string", "enum": list(_OUTCOMES)},
        one_of(_OUTCOMES),
    ),
    Parameter(
        "label",
        "`KEY=VALUE`: only tasks with this label; of several all must fit.",
        {**_STRING, "pattern": "^[^=]+="},
        asked.label,
        most=_LABELS,
    ),
    Parameter("service", "Only tasks in which this service took part.", _STRING, _text),
    Parameter("since", f"Only tasks that started then or later: {_MOMENT}.", _STRING, asked.moment_ns),
    Parameter("until", f"Only tasks that started before: {_MOMENT}.", _STRING, asked.moment_ns),
    Parameter("q", "Only tasks whose name or id contains the text, in whatever case.", _STRING, _text),
)
"""Which tasks an answer is about."""

GROUP_BY = Parameter(
    "group_by",
    "Groups of tasks by `name`, `outcome` or `label.KEY`.",
    {**_STRING, "pattern": "^(name|outcome|label\\..+)$"},
    asked.group_by,
)
GROUPS_LIMIT = Parameter(
    "groups",
    "How many groups at most: those that cost most.",
    {"type": "integer", "minimum": 1, "maximum": GROUPS_MOST, "default": GROUPS},
    _whole(1, GROUPS_MOST),
)
AFTER = Parameter("after", "The next rows: the value of `next` in the answer before.", _STRING, asked.cursor)
AFTER_CALL = AFTER._replace(read=asked.call_cursor)
BY = Parameter(
    "by",
    "What is added up.",
    {"type": "string", "enum": list(get_args(By))},
    one_of(get_args(By)),
    required=True,
)
RATES_BY = Parameter(
    "by",
    "What the speed is told by: tokens of input, or calls in flight at the same endpoint.",
    {"type": "string", "enum": list(get_args(RatesBy))},
    one_of(get_args(RatesBy)),
    required=True,
)
TASK = Parameter("task", "Only this task: its id, or a part of it that no other has.", _STRING, _text)


def read(parameters: Sequence[Parameter], given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The values of what was given.

    Raises:
        Refused: one is not known, not as expected, too long, missing, or given too often.
    """
    known = {parameter.name: parameter for parameter in parameters}
    found: dict[str, list[Any]] = {}
    for name, text in given:
        parameter = known.get(name)
        if parameter is None:
            some = f"there are {', '.join(known)}" if known else "there are none here"
            raise Refused(
                400, f"there is no parameter {_quoted(name)}; {some}", cut(printable(name), _QUOTED)
            )
        found.setdefault(name, []).append(_value(parameter, text))
        if len(found[name]) > parameter.most:
            often = "once" if parameter.most == 1 else f"{parameter.most} times"
            raise Refused(400, f"{name} may be given {often}", name)
    for parameter in parameters:
        if parameter.required and parameter.name not in found:
            raise Refused(400, f"{parameter.name} is missing: {_expected(parameter)}", parameter.name)
    return {name: values if known[name].most > 1 else values[0] for name, values in found.items()}


def _value(parameter: Parameter, text: str) -> Any:
    if len(text) > TEXT_LIMIT:
        raise Refused(400, f"{parameter.name} is longer than {TEXT_LIMIT:,} characters", parameter.name)
    try:
        return parameter.read(text)
    except ValueError as error:
        raise Refused(400, f"{parameter.name}: {error}, got {_quoted(text)}", parameter.name) from error


def _expected(parameter: Parameter) -> str:
    allowed = parameter.schema.get("enum")
    return f"expected one of {', '.join(allowed)}" if allowed else parameter.description


def _quoted(text: str) -> str:
    return repr(cut(printable(text), _QUOTED))
