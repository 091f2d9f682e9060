"""The rules of the source tree: which folder may import which, where Python may live, how files are named."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ORDER = ("render", "scenes", "viewer", "tests")  # each may import itself and what stands before it
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}


def python_files(folder: str) -> list[Path]:
    return sorted(p for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts)


def imported_modules(source: str) -> list[str]:
    """Dotted names that a source text imports, at any depth; relative imports keep their dots."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names.append(module)
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def offences(folder: str, source: str) -> list[str]:
    """Imports in ``source`` that a file of ``folder`` must not have."""
    later = ORDER[ORDER.index(folder) + 1 :]
    found = []
    for name in imported_modules(source):
        parts = name.split(".")
        bare = parts[0] in ("render", "scenes", "viewer")
        upward = parts[0] == "luxel" and len(parts) > 1 and parts[1] in later
        if bare or upward or (folder != "tests" and parts[0] == "tests") or name.startswith(".."):
            found.append(name)
    return found


@pytest.mark.parametrize("folder", ORDER)
def test_imports_point_one_way(folder: str) -> None:
    found = {
        str(p.relative_to(ROOT)): bad
        for p in python_files(folder)
        if (bad := offences(folder, p.read_text()))
    }
    assert not found, (
        f"{folder} may import only {ORDER[: ORDER.index(folder) + 1]} as luxel.<folder>: {found}"
    )


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("render", "import luxel.scenes"),
        ("render", "def f():\n    from luxel import viewer"),
        ("scenes", "from luxel.viewer.cli import main"),
        ("viewer", "import render"),
        ("tests", "from scenes import open"),
        ("scenes", "from ..render import camera"),
    ],
)
def test_the_import_rule_catches(folder: str, source: str) -> None:
    assert offences(folder, source)


def test_cuda_holds_no_python() -> None:
    assert not python_files("cuda"), (
        "cuda/ must stay free of Python: it would shadow NVIDIA's own `cuda` package"
    )


def test_names_say_what_a_file_is() -> None:
    named = [
        p.relative_to(ROOT)
        for folder in (*ORDER, "cuda")
        for p in (ROOT / folder).rglob("*")
        if "__pycache__" not in p.parts
        and (p.stem.lower() in VAGUE or (p.is_dir() and p.name.lower() in VAGUE))
    ]
    assert not named


def test_luxel_is_a_namespace() -> None:
    """No luxel/__init__.py and no package at the top: the three folders are mapped under luxel."""
    import luxel

    assert getattr(luxel, "__file__", None) is None
    assert not (ROOT / "__init__.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_importing_needs_neither_gpu_nor_libraries(tmp_path: Path) -> None:
    """The engine and the command line import where no native library is to be had."""
    code = "import luxel.render, luxel.render.native, luxel.viewer.cli; print('imported')"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LUXEL_NATIVE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert run.returncode == 0 and "imported" in run.stdout, run.stderr
