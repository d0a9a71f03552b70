"""Law 1 for one call: whatever an engine claims, its phases fill the call, and none is cut in silence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.spans import failed

from agentprof.model import SOURCES, Call, Phase
from agentprof.rollup.phases import fill_phases
from agentprof.rollup.possible import is_reported

MS = 1_000_000
NAMES = ("connect", "network", "queue", "prefill", "wait", "generation", "model", "client")

lengths = st.integers(0, 120).map(lambda ms: ms * MS)
claims = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        lambda ns, source: Phase(ns=ns, source=source, field="f"), lengths, st.sampled_from(SOURCES[:4])
    ),
)
attempts = st.lists(st.builds(failed, lengths, lengths), max_size=2).map(tuple)


@given(claims, lengths, st.none() | lengths, attempts, st.booleans())
def test_phases_fill_a_call(
    phases: dict[str, Phase],
    duration: int,
    first_token: int | None,
    tries: tuple[object, ...],
    late: bool,
) -> None:
    """To the nanosecond, with known sources; none of them is empty or negative."""
    call = Call(
        phases=phases,
        first_token_ns=first_token,
        failed_attempts=tries,  # type: ignore[arg-type]
        attempts=len(tries) + 1,
        queue_starts_late=late,
    )
    filled = fill_phases(call, duration)
    assert sum(segment.ns for segment in filled.segments) == duration
    assert all(segment.ns > 0 and segment.source in SOURCES for segment in filled.segments)


@given(claims, lengths, st.none() | lengths, st.booleans())
def test_nothing_reported_is_cut_in_silence(
    phases: dict[str, Phase], duration: int, first_token: int | None, late: bool
) -> None:
    """A prefill or a wait that is reported has its length, or it is said that it does not fit or that it cannot be."""
    call = Call(phases=phases, first_token_ns=first_token, queue_starts_late=late)
    filled = fill_phases(call, duration)
    for name in ("prefill", "wait"):
        claimed = phases.get(name)
        if claimed is None or not is_reported(claimed) or claimed.source == "derived":
            continue
        if name == "wait" and {"queue", "prefill"} & phases.keys():
            continue  # divided by its parts
        shown = sum(segment.ns for segment in filled.segments if segment.name == name)
        assert shown == claimed.ns or filled.overflow or filled.faults
