"""The examples of new capture and scene formats run, and what they register is used everywhere."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel import scenes
from luxel.scenes.captures import registry as capture_formats
from luxel.scenes.files import registry as scene_formats
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot
from luxel.viewer.commands.export import Export

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch):
    """Runs an example by name, with registries that are restored after the test; returns its names."""
    monkeypatch.setattr(capture_formats, "CAPTURE_FORMATS", list(capture_formats.CAPTURE_FORMATS))
    monkeypatch.setattr(scene_formats, "SCENE_FORMATS", list(scene_formats.SCENE_FORMATS))

    def run(name: str) -> dict[str, Any]:
        return runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def test_capture_format(run_example, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = run_example("capture_format.py")
    assert capsys.readouterr().out.startswith("poses.csv: 10 training views, 2 held out\n300 points")
    example["write_example"](tmp_path)
    for view, camera in zip(scenes.open(tmp_path).views, ring_cameras(12), strict=True):
        assert np.allclose(view.camera.world_to_cam, camera.world_to_cam, atol=1e-6)
        assert np.allclose(view.camera.intrinsics, camera.intrinsics, rtol=1e-6)
        assert view.read().rgb.max() > 100
    text = (tmp_path / "poses.csv").read_text().splitlines()
    text[3] = text[3].replace("02.png,64", "02.png,wide")
    (tmp_path / "poses.csv").write_text("\n".join(text))
    with pytest.raises(scenes.CaptureError, match=r"poses\.csv: line 4: invalid row .*'wide'"):
        scenes.open(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        scenes.CaptureError, match=r"poses\.csv: there is no poses\.csv; .*transforms\.json: there is"
    ):
        scenes.open(tmp_path / "empty")
    with pytest.raises(ValueError, match="already registered"):
        example["main"]()


def test_export_format(run_example, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_example("export_format.py")
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("formats of Gaussians: ")]
    assert {".ply", ".splat", ".glb", ".safetensors"} < set(line.split(": ")[1].split(", "))
    assert line.endswith(", .xyz")
    knot = torus_knot(30)
    scenes.save_scene(tmp_path / "knot.ply", knot)
    Export(scene=tmp_path / "knot.ply", out=tmp_path / "knot.xyz").execute()
    table = np.loadtxt(tmp_path / "knot.xyz")
    assert table.shape == (30, 7) and np.allclose(table[:, :3], knot.means, rtol=1e-5)
    assert np.allclose(table[:, 6], knot.opacity_logits.sigmoid(), atol=1e-4)
    with pytest.raises(scenes.CaptureError, match=r"\.xyz is not a scene format that luxel reads"):
        scenes.load_scene(tmp_path / "knot.xyz")
    with pytest.raises(scenes.CaptureError, match=r"\.xyz has no option half.*write one of \.safetensors"):
        scenes.save_scene(tmp_path / "knot.xyz", knot, half=True)
