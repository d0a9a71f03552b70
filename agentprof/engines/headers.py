"""What headers of answers say of the time the other side took, by the names of its sources.

On a whole answer a server's time is all of it; what passed beside it was the way there and back. On a stream headers
leave before the body does, so the time is that until the headers: taken from when they came it leaves the way alone.

* `openai-processing-ms`: OpenAI, Azure OpenAI, and servers that copy them, llama-cpp-python among them, with the same
  meaning (llama_cpp/server/errors.py). It says nothing of who answered.
* `server-timing: gfet4t7; dur=MS`: the front end of Gemini, until the first byte of the answer.
* `x-litellm-response-duration-ms`, `x-litellm-overhead-duration-ms`: LiteLLM's proxy; the first less the second is the
  time of the provider (litellm_core_utils/llm_response_utils/response_metadata.py).
* `x-total-time`, `x-queue-time`, `x-inference-time`: TGI, on whole answers (router/src/server.rs). Validation, where
  the prompt is tokenized, precedes the queue; inference is prefill and generation undivided. On `/v1/completions` the
  times are sums over prompts, which a compute time of 0 tells: nothing is read then.
* `fireworks-*`: see `fireworks`; on a stream only those that are known before the body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from agentprof.engines import fireworks
from agentprof.engines._times import MILLISECONDS, duration, fault, note
from agentprof.model import Phase

if TYPE_CHECKING:
    from agentprof.dialects import Answer

_PROCESSING: Final = "openai-processing-ms"
_SERVER_TIMING: Final = "server-timing"
_LITELLM: Final = "x-litellm-response-duration-ms"
_LITELLM_OVERHEAD: Final = "x-litellm-overhead-duration-ms"
_TGI: Final = ("x-total-time", "x-queue-time", "x-inference-time")
_TGI_COMPUTE: Final = "x-compute-time"
_FIREWORKS: Final = "fireworks-"

TELLING: Final = (_PROCESSING, _SERVER_TIMING, _LITELLM, _TGI[0], _FIREWORKS + "server-time-to-first-token")
"""One of these is among what any of the sources sends."""

_GOOGLE: Final = re.compile(r"gfet4t7; ?dur=(-?[0-9.]+)")
_DIVIDED: Final = frozenset({"queue", "prefill", "generation"})
_TOLERANCE_NS: Final = 5 * MILLISECONDS


def read(found: Mapping[str, str], answer: Answer, until_headers_ns: int | None) -> None:
    """Note what headers say, beside what the body has said.

    Args:
        found: Those of `agentprof.engines.HEADERS` the answer has.
        until_headers_ns: From the request to the headers, of a stream; None: the answer came whole.
    """
    if len(found) == 1 and _PROCESSING in found:
        pass  # what most answers have
    elif all(name in found for name in _TGI):
        _read_tgi(found, answer)
    elif any(name.startswith(_FIREWORKS) for name in found):
        fireworks.note_times(
            {name[len(_FIREWORKS) :]: text for name, text in found.items()}, _FIREWORKS, answer
        )
        answer.engine = answer.engine or fireworks.NAME
    if answer.phases.keys() >= _DIVIDED:
        return
    server = _server_time(found, answer)
    if server is None:
        return
    ns, field = server
    if until_headers_ns is None:
        note(answer, "model", ns, field, "derived" if " - " in field else "reported")
    elif ns > until_headers_ns + _TOLERANCE_NS:
        fault(answer, field, "longer than the time to the headers")
    else:
        away = Phase(ns=max(until_headers_ns - ns, 0), source="derived", field=f"headers - {field}")
        answer.phases.setdefault("network", away)


def _read_tgi(found: Mapping[str, str], answer: Answer) -> None:
    answer.engine = answer.engine or "tgi"
    if _is_zero(found.get(_TGI_COMPUTE)) and not _is_zero(found["x-total-time"]):
        return
    note(answer, "queue", _ms(found, "x-queue-time", answer), "x-queue-time")
    note(answer, "model", _ms(found, "x-total-time", answer), "x-total-time")


def _server_time(found: Mapping[str, str], answer: Answer) -> tuple[int, str] | None:
    """How long the other side took, and the field that says it."""
    timing = _GOOGLE.search(found[_SERVER_TIMING]) if _SERVER_TIMING in found else None
    if timing is not None:
        ns = duration(timing[1], f"{_SERVER_TIMING}.dur", MILLISECONDS, answer)
        return None if ns is None else (ns, f"{_SERVER_TIMING}.dur")
    whole, overhead = _ms(found, _LITELLM, answer), _ms(found, _LITELLM_OVERHEAD, answer)
    if whole is not None:
        if overhead is None:
            return whole, _LITELLM
        if overhead <= whole:
            return whole - overhead, f"{_LITELLM} - {_LITELLM_OVERHEAD}"
        fault(answer, _LITELLM_OVERHEAD, "longer than the whole it is part of")
        return None
    ns = _ms(found, _PROCESSING, answer)
    return None if ns is None else (ns, _PROCESSING)


def _ms(found: Mapping[str, str], name: str, answer: Answer) -> int | None:
    text = found.get(name)
    # LiteLLM writes what it does not know as this.
    return None if text is None or text == "None" else duration(text, name, MILLISECONDS, answer)


def _is_zero(text: str | None) -> bool:
    return text is not None and text.strip("0. ") == ""
