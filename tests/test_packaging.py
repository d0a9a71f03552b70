"""The built wheel holds both packages, whole, and nothing else at its top."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of a wheel built from the checkout."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; it is in the extra `dev`")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.startswith("agentprof_otel-")
    with zipfile.ZipFile(wheel) as opened:
        return opened.namelist()


def test_the_wheel_has_the_two_packages(names: list[str]) -> None:
    """And its metadata."""
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"agentprof", "agentprof_collector"}


def test_the_wheel_has_the_data_files(names: list[str]) -> None:
    """Type markers, SQL, the recordings of the demo, templates and styles of the page, the licence."""
    data = {
        str(file.relative_to(folder.parent))
        for folder in (ROOT / "agentprof", ROOT / "collector" / "agentprof_collector")
        for file in folder.rglob("*.*")
        if file.suffix not in (".py", ".pyc") and file.is_file()
    }
    assert {file.rpartition(".")[2] for file in data} >= {"typed", "sql", "json", "html", "css", "js"}
    assert data <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
