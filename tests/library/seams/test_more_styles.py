"""Every way to call Bedrock through boto3, and providers through LiteLLM, is captured whole."""

import pytest
from support import boto3_styles, litellm_calls, litellm_styles
from support.styles import missing

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("style", [style.name for style in boto3_styles.styles_of()])
def test_nothing_is_missing_of_boto3(style: str) -> None:
    """The span says what is expected, and the program gets the same as without us."""
    pytest.importorskip("boto3", reason="the SDK is not installed")
    (found,) = [one for one in boto3_styles.styles_of() if one.name == style]
    assert missing(found, boto3_styles.MODEL) == []


@pytest.mark.parametrize("provider", litellm_calls.MODELS)
def test_nothing_is_missing_of_litellm(provider: str) -> None:
    """The same."""
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    litellm_calls.library()
    model = litellm_calls.MODELS[provider].rpartition("/")[2]
    for style in litellm_styles.styles_of(provider):
        assert (style.name, missing(style, model)) == (style.name, [])
