"""Packages that import their names on first use."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = [
    "luxel.render.primitives",
    *(f"luxel.render.primitives.{name}" for name in ("gaussians", "gaussians4d", "convexes", "surfels")),
    "luxel.render.train",
    "luxel.render.segment",
    "luxel.scenes",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_found(name: str) -> None:
    package = importlib.import_module(name)
    folder = Path(package.__path__[0])
    for exported in package.__all__:
        assert not (folder / f"{exported}.py").exists(), "importing that module would hide the name"
        assert getattr(package, exported) is getattr(package, exported)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_importing_the_package_needs_no_torch(name: str) -> None:
    code = f"import sys, {name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
