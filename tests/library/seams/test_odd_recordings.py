"""What is odd about some recordings, each oddity by its name: the span says what the bytes say, whatever sends them."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import odd_senders
from support.odd_facts import facts
from support.odd_recordings import FORMS, ODD
from support.recordings import Recordings

from agentprof import _guard, attributes
from agentprof.testing import capture

pytestmark = pytest.mark.filterwarnings("ignore")
"""Of SDKs about old models, and of the replay server about the files it reads."""

_GROQ = "usage_extra_keys:completion_time,prompt_time,queue_time,total_time"
Send = Callable[[str, dict[str, Any]], None]


@pytest.fixture(scope="module")
def server(recordings: Recordings) -> Iterator[Any]:
    """All recordings, as they were answered."""
    with recordings.served() as running:
        yield running
    gc.collect()  # what SDKs have left open


def spans_of(send: Send, server: Any, name: str) -> list[dict[str, Any]]:
    """What the spans of one call say."""
    failures = _guard.counts()
    with capture() as captured:
        with suppress(Exception):  # what the SDKs make of a refusal
            send(server.url(name, ""), server.store.by_name[name])
        if not captured.spans:
            gc.collect()  # SDKs leave a stream open in which there is an error
        found = [facts(span) for span in captured.spans]
    assert _guard.counts() == failures
    return found


@pytest.mark.parametrize("flag", ODD)
def test_plain_http(server: Any, flag: str) -> None:
    """The recorded bytes, posted to the recorded path."""
    name, said = ODD[flag]
    assert spans_of(odd_senders.by_http, server, name) == ([] if flag in FORMS or said is None else [said])


@pytest.mark.parametrize("flag", ODD)
def test_sdk(server: Any, flag: str) -> None:
    """The same call by the SDK."""
    name, said = ODD[flag]
    module = odd_senders.sdk_of(server.store.by_name[name])
    assert module is not None, "choose a recording that an SDK can send"
    if not odd_senders.is_installed(module):
        pytest.skip(f"the SDK is not installed: {module}")
    assert spans_of(odd_senders.by_sdk, server, name) == ([] if said is None else [said])


def test_times_of_groq(server: Any) -> None:
    """`usage_extra_keys:completion_time,prompt_time,queue_time,total_time`, whole, and in a stream in `x_groq` too."""
    for flag, queue in ((_GROQ, 0.01813716), ("usage_in_x_groq", 0.017442521)):
        with capture() as captured:
            odd_senders.by_sdk(server.url(ODD[flag][0], ""), server.store.by_name[ODD[flag][0]])
        said = captured.spans[0].attributes or {}
        assert said[attributes.PHASE + "queue"] == pytest.approx(queue, abs=1e-9)
        assert said[attributes.PHASE_SOURCE + "queue"] == "reported"


def test_recordings_have_the_oddity(recordings: Recordings) -> None:
    """Each name stands for a recording that the truth calls so; long names are cut in the list."""
    for flag, (name, _) in ODD.items():
        assert any(odd.startswith(flag) for odd in recordings.truths[name]["nasty"]), flag


def test_every_oddity_has_its_test(shared: Path) -> None:
    """The list of odd recordings has no name that is not above."""
    text = (shared / "data" / "recordings" / "NASTY.md").read_text(encoding="utf8")
    listed = re.findall(r"^- (\S+) \(\d+\)", text, re.MULTILINE)
    assert len(listed) == 81
    assert set(listed) == set(ODD)
