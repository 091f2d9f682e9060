"""The dependencies of pyproject.toml: what is imported is declared, what is declared is imported, each has a bound."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("render", "scenes", "viewer")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "pi_heif": "pi-heif",
    "fast_simplification": "fast-simplification",
}  # by imported name
# Imported only where they are installed, by packages that no extra brings.
PEERS = {
    "tinycudann": "a peer that is not on PyPI",
    "torchvision": "nvJPEG on a GPU",
    "nvidia": "compilers of CUDA's packages, which torch or an extra for compilers brings",
}
IMPORTERS = {"import_module", "find_spec", "mesh_package"}


def imports(source: str) -> Iterator[str]:
    """Top-level names of what a source text imports, at any depth, also by `importlib.import_module("name")`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in IMPORTERS and isinstance(name := node.args[0].value, str):
                yield name.split(".")[0]


def imported() -> dict[str, set[str]]:
    """Distributions that the package imports, with the files that do."""
    listed: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in imports(path.read_text()):
                if name not in sys.stdlib_module_names and name != "luxel":
                    distribution = DISTRIBUTIONS.get(name, name)
                    listed.setdefault(distribution, set()).add(str(path.relative_to(ROOT)))
    return listed


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[ \[<>=!~;]", requirement, maxsplit=1)[0] for requirement in requirements}


def extras() -> set[str]:
    """What the extras of users bring; those of developers and of compilers are not imported."""
    optional = PROJECT["optional-dependencies"]
    return set().union(*(names(optional[extra]) for extra in optional if extra not in ("test", "nvcc")))


def test_what_is_imported_is_declared() -> None:
    declared = names(PROJECT["dependencies"]) | extras() | set(PEERS)
    undeclared = {name: sorted(files) for name, files in imported().items() if name not in declared}
    assert not undeclared


def test_what_is_declared_is_imported() -> None:
    assert not names(PROJECT["dependencies"]) - set(imported())


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_each_dependency_has_a_lower_bound(requirement: str) -> None:
    """`make test-oldest` installs these bounds."""
    assert re.fullmatch(r"[a-z0-9-]+>=[0-9][0-9.]*(,<[0-9.]+)?", requirement)


def test_the_document_lists_the_dependencies_and_nothing_else() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \|", text, re.MULTILINE)
    bounds = {
        re.split("[>=<]", one, maxsplit=1)[0]: one.split(">=")[1].split(",")[0]
        for one in PROJECT["dependencies"]
    }
    assert {name: bound.strip() for name, bound in rows} == bounds


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    import cv2.fisheye as c", {"cv2"}),
        ("from PIL.Image import open", {"PIL"}),
        ("import importlib\nimportlib.import_module('a.b')", {"importlib", "a"}),
        ("from . import x", set()),
    ],
)
def test_imports_are_found_at_any_depth(source: str, expected: set[str]) -> None:
    assert set(imports(source)) == expected


def test_installed_versions_are_within_the_bounds() -> None:
    """In the environment of the tests; of the oldest one too, where `make test-oldest` runs this."""
    for requirement in PROJECT["dependencies"]:
        name, bound = re.split(">=", requirement.split(",")[0])
        version = importlib.metadata.version(name)
        numbers = [int(part) for part in re.findall(r"\d+", version.split("+")[0])]
        assert numbers >= [int(part) for part in bound.split(".")], f"{name} {version}"
