"""Every way to call the installed SDK is captured whole; `scripts/sdk_versions` asks the same of other versions."""

import pytest
from support.sdk_styles import STYLES, Style, has, missing


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_nothing_is_missing(style: Style) -> None:
    """The span says what is expected of the style, and the program gets the same as without us."""
    assert has(style)
    assert missing(style) == []


def test_what_is_missing_is_seen() -> None:
    """The check fails where a span says less than expected."""
    style = next(style for style in STYLES if style.name == "chat")
    assert missing(Style(**{**vars(style), "expects": ("first token", "tokens", "pauses")})) == [
        "first token",
        "pauses",
    ]
