"""A JSON request with values of wrong types → the same request without them, and how many there were.

Only for what the typed decoder refuses: one wrong value costs itself, or the span it makes useless, and
nothing that stands beside it.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_DIGITS = 25
"""Of a number that can still be a time or a count."""
_INT64 = range(-(2**63), 2**63)
_DEPTH = 100
"""Arrays and maps within each other in one value."""


class NotRequest(ValueError):
    """The text is no JSON, or JSON of something else."""


class Repaired(NamedTuple):
    """A request with only values of the types it may hold."""

    tree: dict[str, Any]
    lost: int
    """Values taken out."""
    skipped: int
    """Spans taken out, for want of an identity or a start."""


def repaired(data: bytes | str) -> Repaired:
    """The request without what is of a wrong type.

    NaN, infinities and halves of surrogate pairs are read, as several encoders write them. A list of
    requests is one request with the parts of all.

    Raises:
        NotRequest: no JSON, JSON nested without end, or no request.
    """
    text = data.decode("utf-8", errors="replace") if isinstance(data, bytes) else data
    try:
        sent = json.loads(text, parse_int=_whole)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8", errors="replace"))
        raise NotRequest(f"JSON is malformed: {error.msg} (byte {at})") from error
    except RecursionError as error:
        raise NotRequest("the JSON is nested too deeply") from error
    repair = _Repair()
    return Repaired(repair.request(sent), repair.lost, repair.skipped)


def _whole(digits: str) -> int | float:
    # Thousands of digits take the square of their number to read.
    return int(digits) if len(digits) <= _DIGITS else math.inf


class _Repair:
    def __init__(self) -> None:
        self.lost = 0
        self.skipped = 0

    def request(self, sent: Any) -> dict[str, Any]:
        requests = [each for each in (sent if isinstance(sent, list) else [sent]) if isinstance(each, dict)]
        if not any(isinstance(each.get("resourceSpans"), list) for each in requests):
            raise NotRequest("expected an object with the key resourceSpans and a list there")
        return {"resourceSpans": [group for each in requests for group in self._groups(each)]}

    def _groups(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for group in self._dicts(request.get("resourceSpans")):
            resource = self._dict(group.get("resource"))
            found.append(
                {
                    "resource": {"attributes": self._pairs(resource.get("attributes"))},
                    "scopeSpans": [self._scope_spans(part) for part in self._dicts(group.get("scopeSpans"))],
                }
            )
        return found

    def _scope_spans(self, sent: dict[str, Any]) -> dict[str, Any]:
        scope = self._dict(sent.get("scope"))
        spans = []
        for each in self._list(sent.get("spans")):
            span = self._span(each) if isinstance(each, dict) else None
            if span is None:
                self.skipped += 1
            else:
                spans.append(span)
        return {"scope": {"name": self._text(scope.get("name"))}, "spans": spans}

    def _span(self, sent: dict[str, Any]) -> dict[str, Any] | None:
        identity = [sent.get("traceId"), sent.get("spanId"), self._number(sent.get("startTimeUnixNano"))]
        if not isinstance(identity[0], str) or not isinstance(identity[1], str) or identity[2] is None:
            return None
        status = sent.get("status")
        return {
            "traceId": _whole_text(identity[0]),
            "spanId": _whole_text(identity[1]),
            "parentSpanId": self._text(sent.get("parentSpanId")),
            "name": self._text(sent.get("name")),
            "kind": self._enum(sent.get("kind")),
            "startTimeUnixNano": identity[2],
            "endTimeUnixNano": self._number(sent.get("endTimeUnixNano")),
            "attributes": self._pairs(sent.get("attributes")),
            "status": {"code": self._enum(status.get("code") if isinstance(status, dict) else status)},
        }

    def _pairs(self, sent: Any, depth: int = 0) -> list[dict[str, Any]]:
        found = []
        for pair in self._dicts(sent):
            key = pair.get("key", "")
            if not isinstance(key, str):
                self._lose()
                continue
            value = self._value(pair.get("value"), depth)
            if value is not None:
                found.append({"key": _whole_text(key), "value": value})
        return found

    def _value(self, sent: Any, depth: int) -> dict[str, Any] | None:
        """A value of the encoding; None if it is lost."""
        if sent is None:
            return {}
        if not isinstance(sent, dict) or depth > _DEPTH:
            self._lose()
            return None
        for kind, value in sent.items():
            if value is None:
                continue
            if kind == "arrayValue":
                items = [self._value(item, depth + 1) for item in self._list(self._dict(value).get("values"))]
                return {kind: {"values": [item for item in items if item is not None]}}
            if kind == "kvlistValue":
                return {kind: {"values": self._pairs(self._dict(value).get("values"), depth + 1)}}
            if kind in ("stringValue", "bytesValue"):
                text = self._text(value)
                return None if text is None else {kind: text}
            if kind == "boolValue":
                return {kind: value} if isinstance(value, bool) else self._spoken_bool(value)
            if kind == "intValue":
                number = self._number(value)
                return None if number is None else {kind: number}
            if kind == "doubleValue":
                return self._double(value)
        return {}

    def _spoken_bool(self, value: Any) -> dict[str, Any] | None:
        known = {"true": True, "false": False}
        if isinstance(value, str) and value.lower() in known:
            return {"boolValue": known[value.lower()]}
        self._lose()
        return None

    def _double(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, str):
            try:
                return {"doubleValue": float(value)}
            except ValueError:
                self._lose()
                return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._lose()
            return None
        return {"doubleValue": float(value)}

    def _number(self, sent: Any) -> int | None:
        """A whole number that 64 bits hold, also where it was written as text or with a point."""
        if sent is None:
            return None
        value = sent
        if isinstance(sent, str) and len(sent) <= _DIGITS:
            try:
                value = int(sent) if sent.lstrip("+-").isdecimal() else float(sent)
            except ValueError:
                self._lose()
                return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # A time may also be unsigned.
        if isinstance(value, bool) or not isinstance(value, int) or not _INT64[0] <= value < 2**64:
            self._lose()
            return None
        return value

    def _enum(self, sent: Any) -> int | str | None:
        if isinstance(sent, str):
            return _whole_text(sent)
        return self._number(sent)

    def _text(self, sent: Any) -> str | None:
        text = self._of_type(str, sent)
        return None if text is None else _whole_text(text)

    def _dict(self, sent: Any) -> dict[str, Any]:
        return self._of_type(dict, sent) or {}

    def _list(self, sent: Any) -> list[Any]:
        return self._of_type(list, sent) or []

    def _of_type(self, kind: type[T], sent: Any) -> T | None:
        if sent is None or isinstance(sent, kind):
            return sent
        self._lose()
        return None

    def _dicts(self, sent: Any) -> list[dict[str, Any]]:
        return [item for item in self._list(sent) if item is not None and (self._dict(item) or item == {})]

    def _lose(self) -> None:
        self.lost += 1


def _whole_text(text: str) -> str:
    """Halves of surrogate pairs, which no encoding can write, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
