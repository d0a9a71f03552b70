"""What there is to read on a span, worked out once for all spans that have the same attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentprof.model import SpanKind
from agentprof.vocabularies import engines
from agentprof.vocabularies._table import MERGED

HTTP_METHOD: Final = ("http.request.method", "http.method")
_OWN: Final = "agentprof."
_NAMES: Final = MERGED.names | engines.ATTRIBUTES | {*HTTP_METHOD}
_KEPT: Final = 1000
"""Sets of attributes that are remembered: instrumentations have few, and a stranger may send any number."""
_KEPT_SIZE: Final = 10_000
"""Characters of the names of one set that is remembered."""


def is_read(name: str) -> bool:
    """Whether `normalise` looks at a span's attribute of this name; all others can be left out."""
    return name in _NAMES or name.startswith(_OWN)


class Reading(msgspec.Struct, frozen=True, gc=False):
    """Where to look on a span with certain attributes."""

    fields: tuple[tuple[str, str], ...]
    """(field, attribute), the best attribute of a field last."""
    own: tuple[str, ...]
    """Names that only agentprof writes."""
    kind_rules: tuple[tuple[str, Mapping[str, SpanKind]], ...]
    has_rules: tuple[tuple[str, SpanKind], ...]
    is_request: bool
    """It tells of an HTTP request."""
    engine: engines.EngineSpans | None
    """The engine that only has such spans."""


_readings: dict[tuple[str, ...], Reading] = {}


def reading_of(attributes: Mapping[str, Any]) -> Reading:
    """Where to look, by the names of the attributes alone."""
    names = tuple(attributes)
    found = _readings.get(names)
    if found is None:
        found = _worked_out(frozenset(names))
        if sum(map(len, names)) <= _KEPT_SIZE:
            if len(_readings) >= _KEPT:
                _readings.clear()
            _readings[names] = found
    return found


def _worked_out(names: frozenset[str]) -> Reading:
    placed = sorted(((MERGED.places[name], name) for name in names if name in MERGED.places), reverse=True)
    return Reading(
        fields=tuple((place.field, name) for place, name in placed),
        own=tuple(sorted(name for name in names if name.startswith(_OWN))),
        kind_rules=tuple(
            (rule.attribute, rule.kinds) for rule in MERGED.kind_rules if rule.attribute in names
        ),
        has_rules=tuple((name, kind) for name, kind in MERGED.has_rules if name in names),
        is_request=not names.isdisjoint(HTTP_METHOD),
        engine=engines.engine_of_marks(names),
    )
