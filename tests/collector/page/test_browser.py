"""The pages in a real browser: wide and narrow, light and dark, with scripts and without."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chromium import Chromium, Page, find_chromium
from support.hostile import SCRIPTS, task_spans
from support.raw import call_span, task_span, tool_span
from support.serving import OfStore

from agentprof.config import load_config
from agentprof.pricing import Pricer
from agentprof_collector.collect.collector import Collector, Options
from agentprof_collector.page import links
from agentprof_collector.recompute import copy_traces
from agentprof_collector.stores import open_store

DESKTOP, PHONE = (1280, 900), (360, 740)
HOSTILE = " ".join(SCRIPTS) * 3

_CONTRAST = """
(() => {
  const parse = (text) => {
    const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a === undefined ? 1 : a];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const behind = (element) => {
    if (!element) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(element).backgroundColor);
    if (own[3] === 1) return own;
    const above = element === document.documentElement ? document.body : element.parentElement;
    const below = above === document.body ? parse(getComputedStyle(above).backgroundColor) : behind(above);
    return over(own, below[3] === 1 ? below : [255, 255, 255, 1]);
  };
  const light = (color) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    const unseen = ["SCRIPT", "TITLE", "title", "NOSCRIPT", "OPTION"].includes(element.tagName);
    if (!text || unseen || !element.checkVisibility()) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [a, b] = [light(over(parse(style.color), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < 4.5) found.push([text.slice(0, 40), style.color, back.join(","), ratio.toFixed(2)]);
    if (parseFloat(style.fontSize) < 11) found.push([text.slice(0, 40), style.fontSize]);
  }
  return { seen, found };
})()
"""
"""Texts whose contrast is below what WCAG 2 asks of text of any size (level AA), or that are very small."""

_COLOURS = """
[...document.querySelectorAll("main svg rect")].slice(0, 400).map((rect) =>
  [rect.getAttribute("class"), getComputedStyle(rect).fill, rect.getBoundingClientRect().width])
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A headless Chromium."""
    binary = find_chromium()
    if binary is None:
        pytest.skip("no Chromium: install one, or name it with AGENTPROF_CHROMIUM")
    with Chromium(binary, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def collector(demo_run: tuple[list[dict[str, Any]], Path]) -> Iterator[Collector]:
    """A collector that holds the tasks of the demo, one with hostile texts, and a large one."""
    store = open_store(None)
    with open_store(demo_run[1], read_only=True) as demo:
        copy_traces(demo, store, {trace for task in demo.tasks() for trace in task.trace_ids})
    OfStore(store).feed(task_spans(HOSTILE))
    large = [
        tool_span("2" * 32, "large", f"s{n}", name=f"tool {n % 40}", at=n / 300, seconds=0.5)
        for n in range(3000)
    ]
    OfStore(store).feed([task_span("2" * 32, "large"), *large])
    options = Options(jaeger_url="http://127.0.0.1:16686")
    with Collector(store, None, Pricer(load_config(None)), options) as running:
        yield running


@pytest.fixture(scope="module")
def addresses(demo_run: tuple[list[dict[str, Any]], Path]) -> dict[str, str]:
    """Pages by name."""
    tasks = {task["name"].replace(" ", "-"): links.task(task["task_id"]) for task in demo_run[0]}
    return {
        "tasks": "/",
        "filtered": "/?name=tidy+files&label=customer%3Dacme",
        "groups": "/?group_by=label.customer",
        "none": "/?name=nothing",
        "wrong": "/?since=never",
        "missing": "/tasks/none",
        "hostile": links.task(f"id {HOSTILE}"[:1024]),
        "large": links.task("large"),
        **tasks,
    }


def screenshot(page: Page, folder: Path, name: str) -> None:
    """Keep a picture for people, where `AGENTPROF_SCREENSHOTS` names a folder for them."""
    kept = os.environ.get("AGENTPROF_SCREENSHOTS")
    file = (Path(kept) if kept else folder) / f"{name}.png"
    page.screenshot(file)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_read_is_found(browser: Chromium, collector: Collector) -> None:
    """The measure of contrast finds a faint text, one on a like ground, and a small one."""
    page = browser.page(*DESKTOP)
    page.open(collector.url + "/?live=0")
    for style in ("color: #999", "background: #0b57c2", "font-size: 9px"):
        page.evaluate(
            "{ const p = document.createElement('p'); p.textContent = 'a test'; p.setAttribute('class', 'skip');"
            f" p.style.cssText = '{style}; position: static; width: auto; height: auto; clip-path: none';"
            " document.body.append(p); }"
        )
    assert [found[0] for found in page.evaluate(_CONTRAST)["found"]] == ["a test"] * 3
    page.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_fit_and_can_be_read(
    browser: Chromium,
    collector: Collector,
    addresses: dict[str, str],
    tmp_path: Path,
    size: tuple[int, int],
    dark: bool,
) -> None:
    """Nothing runs off to the side, texts have contrast, the console is empty, nothing is fetched elsewhere."""
    for name, path in addresses.items():
        page = browser.page(*size, dark=dark, phone=size == PHONE)
        page.open(collector.url + path)
        screenshot(
            page, tmp_path, f"{name}-{'phone' if size == PHONE else 'desktop'}-{'dark' if dark else 'light'}"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], name
        contrast = page.evaluate(_CONTRAST)
        assert contrast["seen"] > 10, name
        assert contrast["found"] == [], name
        expected = {"wrong": "400 (Bad Request)", "missing": "404 (Not Found)"}.get(name)
        assert len(page.problems) == (0 if expected is None else 1), page.problems
        assert expected is None or expected in page.problems[0]
        assert all(address.startswith(collector.url) for address in page.requests), name
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") != dark
        page.close()


def test_the_parts_of_a_bar_have_their_colours(
    browser: Chromium, collector: Collector, addresses: dict[str, str]
) -> None:
    """And widths: what is there is at least a pixel wide."""
    page = browser.page(*DESKTOP)
    page.open(collector.url + addresses["tidy-files"])
    drawn = page.evaluate(_COLOURS)
    fills = {name: fill for name, fill, _ in drawn}
    assert {"p-model", "p-tool", "p-other", "p-holds"} <= set(fills)
    assert len(set(fills.values())) == len(fills)
    assert "rgb(0, 0, 0)" not in fills.values()
    assert min(width for name, _, width in drawn if name.startswith("p-")) >= 1


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_are_whole_without_scripts(
    browser: Chromium, collector: Collector, addresses: dict[str, str], tmp_path: Path, size: tuple[int, int]
) -> None:
    """The same text is shown, and the same bars are drawn."""
    for name in ("tasks", "tidy-files"):
        texts = []
        for script in (True, False):
            page = browser.page(*size, script=script, phone=size == PHONE)
            page.open(collector.url + addresses[name] + ("?live=0" if name == "tasks" else ""))
            screenshot(page, tmp_path, f"{name}-{'with' if script else 'without'}-scripts-{size[0]}")
            page.evaluate("document.querySelectorAll('time, [name=proof]').forEach((one) => one.remove())")
            texts.append((page.evaluate("document.body.innerText"), len(page.evaluate(_COLOURS))))
            page.close()
        assert texts[0] == texts[1]
        assert texts[0][1] > 8


def send(collector: Collector, task: str) -> None:
    """Send a task of three spans over OTLP."""
    spans = [task_span("3" * 32, task), call_span("3" * 32, task, "a"), tool_span("3" * 32, task, "b")]
    body = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": span.trace_id,
                                "spanId": f"{number + 1:016x}",
                                "name": span.name,
                                "startTimeUnixNano": str(span.start_ns),
                                "endTimeUnixNano": str(span.end_ns),
                                "attributes": [
                                    {"key": key, "value": {"stringValue": value}}
                                    for key, value in span.attributes.items()
                                    if isinstance(value, str)
                                ],
                                **({"parentSpanId": f"{1:016x}"} if number else {}),
                            }
                            for number, span in enumerate(spans)
                        ]
                    }
                ]
            }
        ]
    }
    connection = http.client.HTTPConnection(collector.otlp_http_url.removeprefix("http://"), timeout=30)
    connection.request("POST", "/v1/traces", json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()


_APPEARS = """
new Promise((found) => {
  const look = () => document.getElementById("live").innerText.includes("TASK") && found(true);
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();
})
"""


def test_a_new_task_appears_by_itself(browser: Chromium, collector: Collector) -> None:
    """Without a reload: what a person was typing is kept."""
    page = browser.page(*DESKTOP)
    page.open(collector.url + "/?q=just-arrived")
    page.evaluate("document.querySelector('[name=name]').value = 'typed'")
    assert "No task fits" in page.evaluate("document.body.innerText")
    send(collector, "just-arrived")
    assert page.evaluate(_APPEARS.replace("TASK", "just-arrived"))
    assert page.evaluate("document.querySelector('[name=name]').value") == "typed"
    assert page.problems == []
    page.close()


def test_an_outcome_is_recorded_by_hand(browser: Chromium, collector: Collector) -> None:
    """The form passes the guard of a collector, and the page shows what was recorded; also without scripts."""
    for script in (True, False):
        store = collector.store
        task = f"by-hand-{script}"
        OfStore(store).feed([task_span("4" * 31 + str(int(script)), task)])
        page = browser.page(*DESKTOP, script=script)
        page.open(collector.url + links.task(task))
        page.submit(
            "document.querySelector('[value=failure]').click(); document.querySelector('[name=score]').value = '0.5'"
        )
        assert "failure (score 0.5)" in page.evaluate("document.querySelector('h1').innerText")
        (fact,) = store.outcomes_of([task])
        assert (fact.outcome, fact.score) == ("failure", 0.5)
        page.close()


def test_stored_scripts_do_not_run(
    browser: Chromium, collector: Collector, addresses: dict[str, str]
) -> None:
    """Not even tried: the policy that would stop them has nothing to say."""
    for name in ("tasks", "hostile"):
        page = browser.page(*DESKTOP)
        page.open(collector.url + addresses[name])
        assert (
            page.evaluate(
                "document.querySelectorAll('main script, main img, main style, main iframe').length"
            )
            == 0
        )
        names = page.evaluate("[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())")
        assert [name for name in names if name.startswith("on")] == []
        assert "<script>alert(1)</script>" in page.evaluate("document.body.textContent")
        assert page.problems == []
        page.close()


def test_the_policy_stops_what_is_not_ours(browser: Chromium, collector: Collector) -> None:
    """Had a script come in, it would not run."""
    page = browser.page(*DESKTOP)
    page.open(collector.url + "/")
    page.evaluate(
        "{ const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        " const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
        " document.body.insertAdjacentHTML('beforeend',"
        ' \'<p id=styled style="color: red" onclick="window.ran = 1">x</p>\');'
        " document.getElementById('styled').click(); }"
    )
    assert page.evaluate("window.ran") is None
    assert len(page.problems) >= 3
    assert all("Content Security Policy" in problem for problem in page.problems)
