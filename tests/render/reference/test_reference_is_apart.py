"""The reference is a witness for tests: production does not import it, and its rooms are those of the operations."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
REFERENCE = "luxel.render.reference"
WITNESSES = {ROOT / "viewer/bench/raster/quality.py"}  # benchmarks of quality measure against the reference


def imports(file: Path) -> set[str]:
    """Modules that a file imports, wherever in it."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def test_production_does_not_import_the_reference():
    files = [file for folder in ("render", "scenes", "viewer") for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    importers = {
        file.relative_to(ROOT)
        for file in files
        if ROOT / "render/reference" not in file.parents
        and file not in WITNESSES
        and any(name == REFERENCE or name.startswith(f"{REFERENCE}.") for name in imports(file))
    }
    assert not importers


def test_rooms_mirror_the_operations():
    rooms = [
        {path.name for path in (ROOT / "render" / folder).iterdir() if (path / "__init__.py").is_file()}
        for folder in ("reference", "ops")
    ]
    assert rooms[0] == rooms[1] == {"field", "mesh", "raster", "train"}
