"""The rules of the source tree: which folder may import which, where Python may live, how files are named."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import source_tree
from source_tree import RULES, circles, debt, imported, may_import

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


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_kept(rule: str) -> None:
    """What breaks a rule is exactly what `layout_debt.json` lists: nothing new, and nothing that was mended."""
    actual, listed = set(RULES[rule]()), set(debt().get(rule, []))
    assert not actual - listed, f"{rule}; broken by: {sorted(actual - listed)}"
    assert not listed - actual, (
        f"mended, run `python tests/source_tree.py --write`: {sorted(listed - actual)}"
    )


def test_exceptions_are_needed() -> None:
    """An exception that nothing makes use of is taken off its list."""
    graph, paths = source_tree.import_graph(), source_tree.modules()
    readers = {
        str(paths[name]) for name in graph if any("render.reference" in other for other in graph[name])
    }
    assert set(source_tree.WITNESSES) <= readers
    assert set(source_tree.CYCLES) <= {" <-> ".join(circle) for circle in circles(graph)}


@pytest.mark.parametrize(
    ("importer", "other", "allowed"),
    [
        ("ops", "mesh", True),
        ("mesh", "ops", False),
        ("primitives", "raster", False),
        ("runs", "train", False),
        ("runs", "metrics", True),
        ("runs", "primitives", False),
        ("fields", "train", False),
        ("train", "fields", False),
        ("train", "runs", True),
        ("nets", "light", False),
        ("geometry", "errors", True),
        ("mesh", "surfaces", False),
        ("ops", "a room without a rank", False),
    ],
)
def test_the_order_inside_render(importer: str, other: str, allowed: bool) -> None:
    assert may_import(importer, other) is allowed


def test_cycles_are_noticed() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f"}, "f": {"e"}}
    assert sorted(circles(graph)) == [["b", "c"], ["e", "f"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_are_read_wherever_they_stand() -> None:
    known = frozenset({"luxel.render", "luxel.render.geometry", "luxel.scenes"})
    lazy = "def f():\n    from luxel.render import geometry, errors\n"
    assert imported(lazy, known) == {"luxel.render", "luxel.render.geometry"}
    assert imported("if TYPE_CHECKING:\n    import luxel.scenes\n", known) == set()
    assert imported("import luxel.scenes, torch", known) == {"luxel.scenes"}


@pytest.mark.parametrize(
    "text",
    [
        "A heavy policy",
        "every so many-th view",
        "The resolution is none.",
        "it heeds the count",
        "The pictures of a run",
        "is told",
    ],
)
def test_retired_words_are_noticed(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(text)
    (tmp_path / "README.md").write_text("resolution: int | None; every Nth view; an image")
    monkeypatch.setattr(source_tree, "ROOT", tmp_path)
    monkeypatch.setattr(
        source_tree, "written_files", lambda suffixes: source_tree.files("docs", suffixes=suffixes)
    )
    assert len(source_tree.retired_words()) == 1


def test_retired_names_are_noticed_in_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text('found = 1  # wanted\n"""told"""\n')
    (tmp_path / "b.cuh").write_text('// nowhere\nint heavy; /* Kind\n */ f("Seen");\n')
    monkeypatch.setattr(source_tree, "ROOT", tmp_path)
    assert source_tree.names_in(Path("a.py")) & {*source_tree.IDENTIFIERS} == {"found"}
    assert source_tree.names_in(Path("b.cuh")) & {*source_tree.IDENTIFIERS} == {"heavy"}


def test_editors_see_the_package_before_it_is_built() -> None:
    """`.editor/luxel` holds the folders under their imported names; pyright reads it, ruff and the sdist do not."""
    links = {path.name: path.resolve() for path in (ROOT / ".editor" / "luxel").iterdir()}
    assert links == {name: ROOT / name for name in ORDER[:-1]}
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert config["pyright"]["extraPaths"] == [".editor"]
    assert (
        ".editor" in config["ruff"]["extend-exclude"]
        and ".editor" in config["scikit-build"]["sdist"]["exclude"]
    )
