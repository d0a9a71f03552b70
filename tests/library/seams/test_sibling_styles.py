"""Every way to call the installed SDKs is captured whole; `scripts/sdk_versions` asks the same of other versions."""

import pytest
from support.sibling_styles import SDKS, client_of, styles_of
from support.styles import has, missing


@pytest.mark.parametrize("name", SDKS)
def test_nothing_is_missing(name: str) -> None:
    """The span says what is expected of each style, and the program gets the same as without us."""
    sdk = SDKS[name]
    pytest.importorskip(sdk.module, reason="the SDK is not installed")
    client = client_of(sdk)
    for style in styles_of(sdk):
        assert has(client, style)
        assert (style.name, missing(style, sdk.asked["model"])) == (style.name, [])
