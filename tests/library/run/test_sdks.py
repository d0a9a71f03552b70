"""Which versions of SDKs are supported: said in one place, and the same wherever else it stands."""

from __future__ import annotations

import re
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from agentprof._run.sdks import SDKS, TRIED, outside

ROOT = Path(__file__).parents[3]


def script() -> Any:
    """What tries the versions."""
    loader = SourceFileLoader("sdk_versions", str(ROOT / "scripts" / "sdk_versions"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "how"),
    [
        ("1.50.2", None),
        ("1.50.0", None),
        ("1.49.9", "older than 1.50, the oldest version that is supported"),
        ("0.28.1", "older than 1.50, the oldest version that is supported"),
        ("3.57.0", None),
        ("3.99.1rc1", None),
        ("4.0.0", "newer than 3.x, the newest version that was tried"),
        ("", "older than 1.50, the oldest version that is supported"),
    ],
)
def test_outside(version: str, how: str | None) -> None:
    """Minor versions before the oldest, major versions after the newest."""
    assert outside("openai", version) == how


def test_what_has_no_range_is_never_outside() -> None:
    """HTTP clients, say."""
    assert outside("httpx", "0.1") is None


def test_the_ends_are_those_that_are_tried() -> None:
    """By the script that tries them, and that CI lets compare with the tables on the page."""
    names = {SDKS[package]: ends for package, ends in TRIED.items()}
    tried = {
        sdk.distribution or name: (sdk.versions[0], sdk.versions[-1]) for name, sdk in script().SDKS.items()
    }
    assert names == tried


def test_extras_ask_for_them() -> None:
    """An extra named like an SDK does not install a version that is not supported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for package, (oldest, _) in TRIED.items():
        for requirement in project["optional-dependencies"].get(package, ()):
            bound = re.sub(r".*>=", "", requirement)
            assert outside(package, bound) is None, requirement
            assert oldest.startswith(bound), requirement
