"""HTML as a browser's parser sees it: elements with their attributes, and the text between them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

_ADDRESSES = ("href", "src", "action", "formaction", "data", "xlink:href")


class Element(NamedTuple):
    """A start tag."""

    tag: str
    attributes: dict[str, str]


class Markup(HTMLParser):
    """A parsed page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        """We write none."""
        raise AssertionError(f"a comment: {data}")

    @property
    def text(self) -> str:
        """Everything a person reads, with single blanks."""
        return " ".join(" ".join(self.texts).split())

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements with the names of their attributes."""
        return [(element.tag, tuple(sorted(element.attributes))) for element in self.elements]

    @property
    def addresses(self) -> list[str]:
        """Where links, forms and resources lead to."""
        return [
            value
            for element in self.elements
            for name, value in element.attributes.items()
            if name in _ADDRESSES
        ]

    def of(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a tag that have these attributes."""
        wanted = attributes.items()
        return [
            element
            for element in self.elements
            if element.tag == tag and wanted <= element.attributes.items()
        ]
