"""The tables of a result, as Markdown."""

from __future__ import annotations

import argparse
import json
from statistics import median

from environments import BASE
from figures import even_out, summary
from rounds import LEAK_WORKLOADS, MODES, WORKLOADS


def markdown(rows: list[list[str]]) -> str:
    """A table whose first row is its head."""
    head, *body = rows
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body]) + "\n"


HOW_TO_READ = """Even CPU time is CPU time scaled to the fastest speed of the machine seen in the run: a fixed piece of
work is timed between the blocks of every measurement. "Added" is the median over the rounds of the
difference to the plain SDK in the same round, with a rough standard error; "(2.0×)" means twice what
bare-span adds, and is left out where that is within the noise. Plain CPU and wall time are as noisy as the
machine was.
"""


def num(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def more(cell: dict) -> str:
    if cell.get("added") is None:
        return "–"
    return f"{cell['added']:+.0f} ±{cell['error']:.0f}"


def overview(times: dict, key: str) -> str:
    names = list(dict.fromkeys(name for rows in times.values() for name in rows))
    table = [["subject", *times]]
    for name in names:
        cells = [times[w].get(name, {}).get(key, {}) for w in times]
        if name == BASE:
            table.append([f"{name} (whole call)", *(num(c.get("median")) for c in cells)])
        else:
            table.append(
                [
                    name,
                    *(
                        more(c) + (f" ({c['added_ratio']:.1f}×)" if c.get("added_ratio") is not None else "")
                        for c in cells
                    ),
                ]
            )
    return markdown(table)


def detail(rows: dict) -> str:
    table = [["subject"]]
    for what in ("even CPU", "CPU", "wall"):
        table[0] += [f"{what} µs", "min–max", "added", "÷ bare-span"]
    table[0].append("spans/call")
    for name, row in rows.items():
        cells = [name]
        for key in ("cpu_even_us", "cpu_us", "wall_us"):
            c = row[key]
            cells += [num(c["median"]), f"{num(c['min'])}–{num(c['max'])}", more(c), num(c["ratio"], 2)]
        table.append([*cells, num(row["spans_per_call"], 2)])
    return markdown(table)


def import_table(result: dict) -> str:
    table = [
        [
            "subject",
            "enable: CPU ms",
            "min",
            "wall ms",
            "min",
            "modules",
            "loads openai at once",
            "until first client: CPU ms",
            "min",
            "wall ms",
            "min",
            "modules",
            "more modules than none",
        ]
    ]
    base = result["import"].get(BASE)
    for name, rows in result["import"].items():
        cells = [name]
        for prefix in ("", "ready_"):
            for key in ("cpu_ms", "wall_ms"):
                values = [r[prefix + key] for r in rows]
                cells += [num(median(values)), num(min(values))]
            cells.append(str(rows[-1][prefix + "modules"]))
            if not prefix:
                cells.append("yes" if rows[-1]["imports_openai"] else "no")
        cells.append(str(rows[-1]["ready_modules"] - base[-1]["ready_modules"]) if base else "–")
        table.append(cells)
    return markdown(table)


def check_cell(workload: str, seen: dict) -> str:
    tokens = seen["spans_with_tokens_per_call"]
    parts = [f"{seen['spans_per_call']:g} span" + ("s" if seen["spans_per_call"] != 1 else "")]
    parts.append("tokens ok" if tokens == 1 else f"tokens in {tokens:g} spans" if tokens else "**no tokens**")
    if "stream" in workload:
        parts.append("first token" if seen["first_token"] else "**no first token**")
    if "retry" in workload:
        parts.append("retries " + ",".join(seen["retry_values"]) if seen["retries"] else "**no retries**")
    return ", ".join(parts)


def check_table(result: dict) -> str:
    table = [["subject", *WORKLOADS]]
    for name, seen in result["check"].items():
        if name != BASE:
            table.append(
                [name, *(check_cell(w, seen[w]) if w in seen else seen.get("error", "–") for w in WORKLOADS)]
            )
    return markdown(table)


def leak_table(result: dict) -> str:
    table = [
        [
            "subject",
            *(f"{w}: {what}" for w in LEAK_WORKLOADS for what in ("MB before", "MB after", "bytes/call")),
        ]
    ]
    for name, seen in result["leak"].items():
        cells = []
        for workload in LEAK_WORKLOADS:
            row = seen.get(workload)
            cells += (
                [
                    num(row["rss_kb"][0] / 1024, 1),
                    num(row["rss_kb"][-1] / 1024, 1),
                    num(row["bytes_per_call"]),
                ]
                if row
                else ["–"] * 3
            )
        table.append([name, *cells])
    return markdown(table)


def table(args: argparse.Namespace) -> None:
    """Print a result as Markdown; a later file replaces the modes that it has."""
    result, *others = [json.loads(path.read_text()) for path in args.results]
    for other in others:
        result |= {mode: other[mode] for mode in MODES if other[mode]}
    even_out(result)
    times, meta = summary(result), result["meta"]
    out = [
        f"Python {meta['python']}, {meta['machine']}, {meta['cpus']} CPUs, {meta['rounds']} rounds of "
        f"{meta['seconds']:g} s per subject and workload, {meta['date']}.\n"
    ]
    if times:
        out.append(HOW_TO_READ)
        for key, what in (("cpu_even_us", "Even CPU"), ("cpu_us", "CPU"), ("wall_us", "Wall")):
            out += [f"## {what} time added to the plain SDK, µs per call\n", overview(times, key)]
    if result["check"]:
        out += ["## What is recorded\n", check_table(result)]
    if result["import"]:
        out += ["## Import and enable\n", import_table(result)]
    if result["leak"]:
        out += ["## Resident memory\n", leak_table(result)]
    for workload, rows in times.items():
        out += [f"## {workload}: {WORKLOADS[workload]}\n", detail(rows)]
    out.append("## Subjects\n")
    out += [f"- **{name}**: {note}" for name, note in result["notes"].items()]
    out += [f"- **{name}**: skipped, {why}." for name, why in result["skipped"].items()]
    print("\n".join(out))
    if args.json:
        args.json.write_text(json.dumps({**result, "summary": times}, indent=1) + "\n")
