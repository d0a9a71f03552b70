"""What a span says is text on a page, whatever it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from urllib.parse import unquote, urlencode

import pytest
from support.hostile import SCRIPTS, task_spans
from support.markup import Markup
from support.serving import OfStore, Server

from agentprof._format import printable
from agentprof_collector.page import links
from agentprof_collector.stores import open_store

Read = Callable[[str], Markup]
HARMLESS = "plain"


def pages(text: str) -> dict[str, str]:
    """Every page that shows the task of a text, with its address."""
    label = f"key {text}"
    return {
        "tasks": "/",
        "filtered": "/?" + urlencode({"name": f"name {text}", "label": f"{label}=value {text}"}),
        "by name": "/?group_by=name",
        "by label": "/?" + urlencode({"group_by": f"label.{label}"}),
        "task": links.task(f"id {text}"),
        "refused": "/?" + urlencode({"outcome": text, "q": text}),
        "nothing": links.task(f"none {text}"),
    }


def labelled(text: str) -> str:
    """A label with "=" in its key cannot be asked for: its first "=" would end it."""
    return text.replace("=", "-")


@pytest.mark.parametrize("text", [labelled(script) for script in SCRIPTS])
def test_a_stored_script_stays_text(fresh: OfStore, fresh_site: Server, text: str) -> None:
    """The page has the same elements and attributes as with harmless texts; only texts and values differ."""
    fresh.feed(task_spans(HARMLESS))
    plain = {name: fresh_site.ask(path) for name, path in pages(HARMLESS).items()}
    fresh.store.close()
    fresh.store = open_store(None)
    fresh.feed(task_spans(text))
    for name, path in pages(text).items():
        answered = fresh_site.ask(path)
        found, harmless = Markup(answered.text), Markup(plain[name].text)
        assert answered.status == plain[name].status, name
        assert found.shape == harmless.shape, name
        assert [one.attributes.get("class") for one in found.elements] == [
            one.attributes.get("class") for one in harmless.elements
        ], name
        for address in found.addresses:
            assert re.match(
                r"#content$|/(\?|tasks/|static/|api/v1/|$)|http://jaeger\.example:16686/trace/", address
            ), name
        assert [one.attributes for one in found.of("script")] == [
            one.attributes for one in harmless.of("script")
        ]
        assert "set-cookie" not in answered.headers
    found = Markup(fresh_site.ask(pages(text)["task"]).text)
    for field in (
        "name",
        "id",
        "key",
        "agent",
        "step",
        "tool",
        "model",
        "provider",
        "service",
        "sdks",
        "host",
    ):
        assert " ".join(printable(f"{field} {text}").split()) in found.text, field
    (form,) = [one for one in found.of("form") if one.attributes["method"] == "post"]
    assert unquote(form.attributes["action"]) == f"/tasks/id {text}/outcome"


def test_nothing_is_marked_as_safe() -> None:
    """No template turns escaping off, and no attribute stands without quotes or runs a script."""
    folder = resources.files("agentprof_collector.page") / "templates"
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    assert len(texts) >= 7
    for name, text in texts.items():
        assert not re.search(r"\|\s*safe|autoescape|Markup|<script(?! src)|<style|\sstyle=|\son\w+=", text), (
            name
        )
        assert not re.search(r"\s\w+=\{\{", text), name


def test_what_would_hide_is_written_out(fresh: OfStore, fresh_read: Read) -> None:
    """Direction marks and controls are shown, not obeyed."""
    fresh.feed(task_spans("\u202e\u2066evil\x1b\x00"))
    for path in ("/", links.task("id \u202e\u2066evil\x1b\x00")):
        text = fresh_read(path).text
        assert "name \\u202e\\u2066evil\\x1b\\x00" in text
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", text)
