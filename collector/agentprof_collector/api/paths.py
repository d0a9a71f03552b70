"""Ids of tasks in paths: any text, percent-encoded, so that a slash in an id is not one of the path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

from agentprof_collector.addresses import ID
from agentprof_collector.api.answers import Refused
from agentprof_collector.api.parameters import TEXT_LIMIT


class _Anything(Convertor[str]):
    """A rest of a path, also with line ends in it."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


def segments(scope: Scope, prefix: str) -> Sequence[str]:
    """What follows the prefix in the path of a request, as it was sent.

    Raises:
        Refused: a segment is no text, or the prefix is written in another way.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    base = scope.get("root_path", "") + prefix + "/"
    if not path.startswith(base):
        raise Refused(404, "there is nothing at this path")
    try:
        return [unquote(segment, errors="strict") for segment in path[len(base) :].split("/")]
    except UnicodeDecodeError as error:
        raise Refused(400, "the path is not UTF-8, percent-encoded") from error


def task_text(segment: str, given: Iterable[tuple[str, str]] = ()) -> str:
    """The text that stands for a task: a segment of the path, or where that is empty the parameter `id`.

    Args:
        segment: of the path.
        given: the parameters of the request.

    Raises:
        Refused: there is nothing, or too much.
    """
    segment = segment or dict(given).get(ID, "")
    if not segment:
        raise Refused(404, "the path lacks the id of a task")
    if len(segment) > TEXT_LIMIT:
        raise Refused(400, f"the id is longer than {TEXT_LIMIT:,} characters", "id")
    return segment
