"""What the span of a call says, without what it leaves out: to be compared with what the recorded bytes say."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from support import truth

from agentprof import attributes

_TEXTS = {
    "model": attributes.RESPONSE_MODEL,
    "stream_end": attributes.STREAM_END,
    "cost_usd": attributes.COST,
    "total_differs": attributes.USAGE_TOTAL_DIFFERS,
}

_ABSENT: tuple[Any, ...] = (None, [], {})


def facts(span: ReadableSpan) -> dict[str, Any]:
    """Tokens, tools, reasons, status, model, the end of a stream and the cost that is reported.

    `first` is `thinking` where the first token was one of reasoning, else `content`.
    """
    said = span.attributes or {}
    known = {name: value for name, value in truth.found(span).items() if value not in _ABSENT}
    if known["error"] is False:
        del known["error"]
    known |= {name: said[attribute] for name, attribute in _TEXTS.items() if attribute in said}
    for name, value in said.items():
        if name.startswith(attributes.MEDIA_TOKENS):
            known[name.removeprefix(attributes.MEDIA_TOKENS)] = value
    if attributes.FIRST_TOKEN in said:
        later = said.get(attributes.FIRST_CONTENT) != said[attributes.FIRST_TOKEN]
        known["first"] = "thinking" if later else "content"
    return known
