"""`luxel export --mesh` of a run: the surface that its cameras see."""

from __future__ import annotations

from pathlib import Path

import pytest

from luxel.scenes import load_points, read_mesh
from luxel.viewer.cli import main


@pytest.mark.parametrize("name", ["surface.ply", "surface.obj"])
def test_a_run_becomes_a_mesh(
    run: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    options = ["--mesh", "--resolution", "32", "--device", "cpu"]
    assert main(["export", str(run), "--out", str(out), *options]) == 0
    said = capsys.readouterr()
    assert "grid: spacing" in said.out and "triangles from" in said.out
    mesh = read_mesh(out)
    assert len(mesh.faces) > 50 and mesh.faces.max() < len(mesh.xyz)
    if name.endswith(".ply"):
        assert load_points(out).rgb.std() > 1, "vertices have the colours of the scene"
    assert main(["export", str(run), "--out", str(out), *options]) == 2, "a file is replaced by --force only"
