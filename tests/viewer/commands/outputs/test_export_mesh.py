"""`luxel export --mesh` of a run: the surface that its cameras see."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from luxel.scenes import load_points, read_mesh
from luxel.viewer.cli import main

needed = pytest.mark.skipif(
    find_spec("xatlas") is None or find_spec("fast_simplification") is None,
    reason="luxel[mesh] is not installed: finished meshes of runs were not exported",
)


@pytest.mark.parametrize("name", ["surface.ply", "surface.obj", "surface.glb"])
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
    elif name.endswith(".glb"):
        assert mesh.rgb.std() > 1 and not mesh.texture
    assert main(["export", str(run), "--out", str(out), *options]) == 2, "a file is replaced by --force only"


@needed
@pytest.mark.parametrize("name", ["model.glb", "model.obj"])
def test_a_run_becomes_a_textured_mesh(
    run: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    out = folder / name
    options = ["--mesh", "--resolution", "32", "--device", "cpu", "--fill-holes", "0.1"]
    options += ["--triangles", "300", "--texture", "64"]
    assert main(["export", str(run), "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    assert "holes: " in said and "triangles: " in said and "texture: " in said
    mesh = read_mesh(out)
    assert 50 < len(mesh.faces) <= 300
    beside = {"model.glb": [], "model.obj": ["model.mtl", "model.png"]}[name]
    assert sorted(path.name for path in folder.iterdir()) == sorted([name, *beside])
    if beside:  # none of the files is replaced without --force
        out.unlink()
        assert main(["export", str(run), "--out", str(out), *options]) == 2
        assert "model.mtl: already exists" in capsys.readouterr().err
    else:
        assert b"image/png" in out.read_bytes() and b"KHR_materials_unlit" in out.read_bytes()


@pytest.mark.parametrize(
    ("options", "out", "problem"),
    [
        (["--texture", "64"], "a.ply", "--texture is for .obj and .glb files"),
        (["--triangles", "3"], "a.ply", "--triangles 3: this is out of bounds. Give an integer from 4"),
        (["--texture", "8"], "a.glb", "--texture 8: this is out of bounds"),
        (["--fill-holes", "2"], "a.ply", "--fill-holes 2"),
    ],
)
def test_options_of_a_finish_are_checked(
    run: Path, tmp_path: Path, options: list[str], out: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(run), "--out", str(tmp_path / "new" / out), "--mesh", *options]
    assert main(words) == 2
    assert problem in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "new").exists()
    assert main([word for word in words if word != "--mesh"]) == 2


@pytest.mark.parametrize("options", [["--triangles", "40"], ["--texture", "64"]])
def test_without_the_extra_it_is_said_how_to_get_it(
    run: Path,
    tmp_path: Path,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("fast_simplification", "xatlas"):
        monkeypatch.setitem(sys.modules, module, None)
    out = tmp_path / "new" / "a.glb"
    assert main(["export", str(run), "--out", str(out), "--mesh", "--device", "cpu", *options]) == 2
    assert "pip install 'luxel[mesh]'" in " ".join(capsys.readouterr().err.split()) and not out.exists()
