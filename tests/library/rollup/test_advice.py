"""What a summary says would tell more, and what it says of times that cannot be; as JSON and on the terminal."""

from __future__ import annotations

from support.spans import call, reported, task

from agentprof import _lines
from agentprof.model import Phase, Span
from agentprof.rollup import roll_up
from agentprof.summary import TaskSummary

MS = 1_000_000


def summary(*calls: Span) -> TaskSummary:
    return roll_up("t", [task("a", 0, 1_000 * MS), *calls])


def test_an_engine_that_does_not_say_its_times() -> None:
    """One line an engine with the calls it served so, and the switch that helps."""
    silent = [call(str(n), n * MS, n * MS + 1, "a", engine="vllm") for n in range(3)]
    found = summary(*silent, call("s", 5 * MS, 6 * MS, "a", engine="sglang"))
    assert [(entry.code, entry.count) for entry in found.advice] == [("sglang_timing", 1), ("vllm_timing", 3)]
    assert "--enable-per-request-metrics" in found.advice[1].detail
    assert "include_usage" in found.advice[1].detail
    assert "--enable-metrics" in found.advice[0].detail
    lines = _lines.warnings(found.to_dict())
    assert lines[-1].startswith("vllm_timing (3): vLLM answers without its times")


def test_engines_that_say_them_or_cannot() -> None:
    """No advice where times are there, be they wrong, where an engine has none to give, and of calls that failed."""
    phases = {"queue": reported(5), "prefill": reported(5), "generation": reported(5)}
    found = summary(
        call("1", 0, 100, "a", engine="vllm", phases=phases),
        call("2", 200, 300, "a", engine="vllm", phases={"queue": Phase(ns=5, source="joined")}),
        call("3", 400, 500, "a", engine="lmdeploy"),
        call("4", 600, 700, "a", engine="groq"),
        call("5", 800, 900, "a", engine="vllm", error=True),
        call("6", 950, 990, "a"),
        call("7", 991, 992, "a", engine="vllm", timing_faults=("metrics.queue_time_ms: negative",)),
    )
    assert found.advice == []


def test_what_the_client_finds_wrong_says_nothing_of_the_engine() -> None:
    """A stream that was held up on the way, of an engine that sent no times."""
    held_up = call("1", 0, 100, "a", engine="vllm", timing_faults=("inter_token: came at once",))
    assert [entry.code for entry in summary(held_up).advice] == ["vllm_timing"]


def test_advice_for_many_tasks() -> None:
    """A line for all of them, with the calls of all."""
    rows = [summary(call("1", 0, 100, "a", engine="vllm")).to_dict() for _ in range(2)]
    (line,) = _lines.advice([*rows, summary(call("1", 0, 100, "a")).to_dict()])
    assert line.startswith("vllm_timing (2): ")
    assert _lines.advice([{}]) == []


def test_faults_are_named_once_each() -> None:
    """With how many there are; the most frequent first, and no more than four of them."""
    names = [f"field{n}: negative" for n in range(6)]
    calls = [call(str(n), n * MS, n * MS + 1, "a", timing_faults=tuple(names[: 1 + n])) for n in range(6)]
    (warning,) = summary(*calls).warnings
    assert (warning.code, warning.count) == ("timing_faults", 21)
    assert warning.detail.endswith(f"({'; '.join(names[:4])}; and 2 more)")
