"""The structure holds: import direction, where attribute names stand, how long files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "agentprof").rglob("*.py"))
COLLECTOR = sorted((ROOT / "collector/agentprof_collector").rglob("*.py"))
LIGHT = {"opentelemetry", "wrapt", "msgspec", "yaml", "agentprof"}
"""What the library may import without an extra."""


def imports(file: Path) -> Iterator[str]:
    """The top-level packages a file imports, at any depth of it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_the_library_does_not_import_the_collector() -> None:
    """Dependencies point one way; only the console script looks for the collector."""
    users = {file.name for file in LIBRARY if "agentprof_collector" in set(imports(file))}
    assert users <= {"_cli.py"}


def test_the_library_imports_only_its_light_dependencies() -> None:
    """Prices are an extra, imported late in one place; SDKs are never imported by name."""
    for file in LIBRARY:
        foreign = set(imports(file)) - LIGHT - set(sys.stdlib_module_names) - {"agentprof_collector"}
        if file.parent.name == "pricing":
            foreign -= {"genai_prices"}
        if foreign - {"openai", "httpx", "httpx2"}:
            raise AssertionError(f"{file.relative_to(ROOT)} imports {foreign}")
        assert not foreign or file.parent.name == "seams", f"{file.relative_to(ROOT)} imports {foreign}"


def test_importing_the_library_imports_no_sdk_and_no_prices() -> None:
    """Whatever is installed."""
    code = (
        "import sys, agentprof; agentprof.instrument(exporter=None, endpoint='http://127.0.0.1:9/v1/traces');"
        "heavy = {'openai', 'genai_prices', 'duckdb', 'rich', 'click', 'httpx', 'httpx2', 'anthropic'};"
        "found = heavy & set(sys.modules); agentprof.uninstrument(); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_attribute_names_stand_in_one_place() -> None:
    """Names agentprof writes are constants of `attributes.py`; those it only reads stand in vocabularies."""
    for file in [*LIBRARY, *COLLECTOR]:
        if file.name == "attributes.py" or "vocabularies" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                named = node.value.startswith(
                    ("gen_ai.", "agentprof.task.", "agentprof.phase", "agentprof.cost.")
                )
                assert not named or file.parent.name == "engines", f"{file.relative_to(ROOT)}: {node.value}"


def test_every_attribute_name_is_used() -> None:
    """No constant of `attributes.py` is left over."""
    declared = {
        node.target.id
        for node in ast.walk(ast.parse((ROOT / "agentprof/attributes.py").read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    used = {
        node.attr
        for file in [*LIBRARY, *COLLECTOR]
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert declared - used == set()


def test_files_are_short() -> None:
    """Past 400 lines a file has more than one job."""
    long = {
        str(file.relative_to(ROOT)): lines
        for file in [*LIBRARY, *COLLECTOR]
        if (lines := len(file.read_text().splitlines())) > 400
    }
    assert long == {}
