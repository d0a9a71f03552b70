"""How far estimates of queue and prefill are off where the truth is known: python benchmarks/black_box.py FOLDER

FOLDER holds `llama_cpp_requests.jsonl` (`benchmarks/data` has one, made by record_requests.py on a machine that was
busy with other programs), and perhaps `vllm_joined_client.jsonl`: client stamps beside the engine's own times. The
engine's times, and the rule that llama.cpp sends headers when a slot starts, are hidden from the
estimate. What is learnt comes from one half of the requests, what is printed from the other, over several
seeded divisions. Truth of a request: prefill as the engine reports it, queue what is left before the first
token.

Lines "in one piece" hide the first token of the requests that are compared as well, as if they had not been
streamed; what is learnt comes from streamed ones.

Columns: requests compared, share with an estimate, share of intervals that held the true queue, prefill and
generation, median absolute error of queue and prefill, median error of the likely prefill (its sign is the bias),
median width of the interval by the true prefill, share of intervals whose queue is surely more than none.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentprof_collector.estimates.in_flight import InFlight
from agentprof_collector.estimates.waits import MOST_SLOWED, Division, Fit, Interval, Unfit, Wait, Whole, fit

SPLITS = 100
"""Divisions into two halves."""


class Request(NamedTuple):
    """A request as its client saw it, and the truth that is hidden from the estimate."""

    wait: Wait
    whole: Whole
    """The same as if it had come in one piece."""
    queue_ns: int
    prefill_ns: int
    generation_ns: int
    concurrency: int
    """As the load was made; 0: not known."""


class Compared(NamedTuple):
    """A request that was held out, and its estimate, or why there was none."""

    request: Request
    division: Division | Unfit


class Figures(NamedTuple):
    """Over all requests that were held out, in all divisions."""

    n: int
    answered: float
    queue_held: float
    prefill_held: float
    generation_held: float
    """Of requests in one piece."""
    queue_error_s: float
    prefill_error_s: float
    prefill_bias_s: float
    width: float
    surely_queued: float


def llama_cpp(folder: Path, slots: int) -> list[Request]:
    """The streamed requests to a server with so many slots."""
    rows = [json.loads(line) for line in _lines(folder / "llama_cpp_requests.jsonl")]
    known = [row for row in rows if row.get("slots") == slots and _is_streamed(row)]
    return _requests(
        known,
        end=lambda row: row["t_done"],
        uncached=lambda row: (
            row["usage"]["prompt_tokens"] - row["usage"]["prompt_tokens_details"]["cached_tokens"]
        ),
        prefill_ms=lambda row: row["timings"]["prompt_ms"],
    )


def vllm(folder: Path) -> list[Request]:
    """The streamed requests to vLLM, as if it had reported that nothing was read from a cache."""
    rows = [json.loads(line) for line in _lines(folder / "vllm_joined_client.jsonl")]
    known = [row for row in rows if _is_streamed(row)]
    return _requests(
        known,
        end=lambda row: row["t_end"],
        uncached=lambda row: row["usage"]["prompt_tokens"],
        prefill_ms=lambda row: row["metrics"]["time_to_first_token_ms"],
    )


Row = Mapping[str, Any]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf8").splitlines() if file.exists() else []


def _is_streamed(row: Row) -> bool:
    return "t_first_content" in row and row["usage"]["completion_tokens"] > 1


def _requests(
    rows: Sequence[Row],
    *,
    end: Callable[[Row], float],
    uncached: Callable[[Row], int],
    prefill_ms: Callable[[Row], float],
) -> list[Request]:
    running = InFlight((_ns(row["t_send"]), _ns(end(row))) for row in rows)
    found = []
    for row in rows:
        begin, first, last = (_ns(row[name]) for name in ("t_send", "t_first_content", "t_last_content"))
        whole = Whole(
            ns=_ns(end(row)) - begin,
            uncached_tokens=uncached(row),
            output_tokens=row["usage"]["completion_tokens"],
            company=max(0.0, running.mean(begin, _ns(end(row))) - 1.0),
        )
        wait = Wait(
            start_ns=begin,
            ns=first - begin,
            uncached_tokens=uncached(row),
            company=max(0.0, running.mean(begin, first) - 1.0),
            token_ns=(last - first) / (row["usage"]["completion_tokens"] - 1),
        )
        prefill = round(prefill_ms(row) * 1e6)
        queue, generation = first - begin - prefill, _ns(end(row)) - first
        found.append(Request(wait, whole, queue, prefill, generation, row.get("conc", 0)))
    return found


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def compared(
    requests: Sequence[Request], *, in_one_piece: bool = False, most_slowed: float = MOST_SLOWED
) -> list[Compared]:
    """Every request each time it was in the half that is held out."""
    found = []
    for seed in range(SPLITS):
        mixed = list(requests)
        random.Random(seed).shuffle(mixed)
        half = len(mixed) // 2
        learnt = fit((request.wait for request in mixed[:half]), most_slowed)
        found += [Compared(request, _division(learnt, request, in_one_piece)) for request in mixed[half:]]
    return found


def _division(learnt: Fit | Unfit, request: Request, in_one_piece: bool) -> Division | Unfit:
    if isinstance(learnt, Unfit):
        return learnt
    return learnt.divide_whole(request.whole) if in_one_piece else learnt.divide(request.wait)


def by_concurrency(pairs: Iterable[Compared]) -> dict[int, Figures]:
    """Figures by the concurrency of the load."""
    groups: dict[int, list[Compared]] = {}
    for pair in pairs:
        groups.setdefault(pair.request.concurrency, []).append(pair)
    return {number: figures(groups[number]) for number in sorted(groups)}


def figures(pairs: Sequence[Compared]) -> Figures:
    """Medians and shares; those of no answer are not a number."""
    answered = [(request, division) for request, division in pairs if isinstance(division, Division)]
    if not answered:
        nothing = float("nan")
        return Figures(len(pairs), 0.0, *[nothing] * 8)
    queues = [(request.queue_ns, division.queue) for request, division in answered]
    prefills = [(request.prefill_ns, division.prefill) for request, division in answered]
    generations = [
        (request.generation_ns, division.generation)
        for request, division in answered
        if division.generation is not None
    ]
    return Figures(
        n=len(pairs),
        answered=len(answered) / len(pairs),
        queue_held=_held(queues),
        prefill_held=_held(prefills),
        generation_held=_held(generations),
        queue_error_s=statistics.median(abs(found.likely_ns - true) for true, found in queues) / 1e9,
        prefill_error_s=statistics.median(abs(found.likely_ns - true) for true, found in prefills) / 1e9,
        prefill_bias_s=statistics.median(found.likely_ns - true for true, found in prefills) / 1e9,
        width=statistics.median((found.high_ns - found.low_ns) / true for true, found in prefills),
        surely_queued=statistics.fmean(found.low_ns > 0 for _, found in queues),
    )


def _held(pairs: Sequence[tuple[int, Interval]]) -> float:
    held = [found.low_ns <= true <= found.high_ns for true, found in pairs]
    return statistics.fmean(held) if held else float("nan")


def main() -> None:
    folder = Path(sys.argv[1])
    head = f"{'':34} {'n':>5} {'answered':>8} {'held':>5} {'held':>5} {'held':>5} {'error':>7} {'error':>7} "
    print(head + f"{'bias':>7} {'width':>6} {'queued':>6}")
    print(f"{'':34} {'':5} {'':8} {'queue':>5} {'pref.':>5} {'gen.':>5} {'queue':>7} {'pref.':>7}")
    two = llama_cpp(folder, 2)
    one = llama_cpp(folder, 1)
    _print("one slot", one, compared(one))
    _print("one slot, in one piece", one, compared(one, in_one_piece=True))
    _print("two slots", two, compared(two))
    _print("two slots, however slowed", two, compared(two, most_slowed=float("inf")))
    _print("vLLM, as if without a cache", vllm(folder), compared(vllm(folder)))


def _print(name: str, requests: Sequence[Request], pairs: Sequence[Compared]) -> None:
    if not requests:
        return
    for number, line in by_concurrency(pairs).items():
        _line(f"{name}, {number} at a time" if number else name, line)
    _line(f"{name}, all", figures(pairs))
    why = Counter(division.reason for _, division in pairs if isinstance(division, Unfit))
    print("".join(f"{'':34} {number:5} without: {reason}\n" for reason, number in sorted(why.items())))


def _line(name: str, line: Figures) -> None:
    if not line.answered:
        print(f"{name:34} {line.n:5} {line.answered:8.0%}")
        return
    shares = (
        f"{line.answered:8.0%} {line.queue_held:5.0%} {line.prefill_held:5.0%} {line.generation_held:5.0%}"
    )
    errors = f"{line.queue_error_s:6.2f}s {line.prefill_error_s:6.2f}s {line.prefill_bias_s:6.2f}s"
    print(f"{name:34} {line.n:5} {shares} {errors} {line.width:6.2f} {line.surely_queued:6.0%}")


if __name__ == "__main__":
    main()
