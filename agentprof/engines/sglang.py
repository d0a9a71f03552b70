"""SGLang: `meta_info`, of a native answer or of each choice (srt/observability/req_time_stats.py, read in 0.5.23).

On chat it is there if the request has `return_meta_info`, and not in streams. `queue_time` runs from the wait queue of
the scheduler to the first forward pass; where the request was thrown out and queued again (`num_retractions`) it holds
these waits too, and is more than what preceded the prefill. Prefill is the difference of two stamps of the engine's
clock, generation what is left of `e2e_latency` after the first token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentprof.engines._times import NEGATIVE, SECONDS, duration, fault, note, number, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "sglang"
MARKERS: Final = (b'"matched_stop"', b'"meta_info"', b'"sglext"', b'"weight_version"')
ADVICE: Final = (
    "SGLang answers without its times: start it with `--enable-metrics`; whole answers carry them if the request has "
    '`"return_meta_info": true`, streams only in its traces (`--enable-trace --otlp-traces-endpoint`)'
)
_SECTION: Final = "meta_info"


class _Choice(msgspec.Struct):
    meta_info: dict[str, Any] | None = None


class _Choices(msgspec.Struct):
    choices: list[_Choice] = []


_choices_of = msgspec.json.Decoder(_Choices).decode


def read(body: bytes, answer: Answer) -> bool:
    """Queue, prefill and generation."""
    section, found = _SECTION, object_at(body, _SECTION)
    if found is None:
        section, found = f"choices[0].{_SECTION}", _of_choice(body)
    if found is not None:
        _note(found, section, answer)
    return True


def _of_choice(body: bytes) -> dict[str, Any] | None:
    try:
        choices = _choices_of(body).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return choices[0].meta_info if len(choices) == 1 else None


def _note(found: dict[str, Any], section: str, answer: Answer) -> None:
    def seconds(name: str) -> int | None:
        return duration(found.get(name), f"{section}.{name}", SECONDS, answer)

    if not found.get("num_retractions"):
        note(answer, "queue", seconds("queue_time"), f"{section}.queue_time")
    entered, prefilled = number(found.get("forward_entry_time")), number(found.get("prefill_finished_time"))
    if entered and prefilled:
        field = f"{section}.prefill_finished_time - {section}.forward_entry_time"
        note(answer, "prefill", duration(prefilled - entered, field, SECONDS, answer), field)
    whole, first = seconds("e2e_latency"), seconds("first_token_latency")
    if whole is None:
        return
    note(answer, "model", whole, f"{section}.e2e_latency")
    if first is not None:
        field = f"{section}.e2e_latency - {section}.first_token_latency"
        if whole < first:
            fault(answer, field, NEGATIVE)
        else:
            note(answer, "generation", whole - first, field)
