"""Every way to call SDKs on plain HTTP clients is captured whole; `scripts/sdk_versions` asks that of more versions."""

import gc

import pytest
from support.repeating_styles import SDKS
from support.styles import has, missing


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SDKS)
def test_nothing_is_missing(name: str) -> None:
    """The span says what is expected of each style, and the program gets the same as without us."""
    sdk = SDKS[name]
    module = sdk.module()
    if module is None:
        pytest.skip("the SDK is not installed")
    for style in sdk.styles(module):
        assert has(module, style)
        assert (style.name, missing(style, sdk.model)) == (style.name, [])
    gc.collect()  # of clients that nobody has closed
