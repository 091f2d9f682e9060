"""Messages about captures and scene files that no damaged byte reaches, and what happens when their advice is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from luxel import scenes
from luxel.render.geometry.camera import Points
from luxel.render.primitives import Gaussians
from luxel.scenes.captures import open_capture
from luxel.scenes.captures.colmap_process.triangulation import MatchedImages, triangulated
from luxel.scenes.captures.formats.colmap import read_colmap
from luxel.scenes.captures.formats.transforms import read_transforms
from luxel.scenes.captures.initial_points import choice, triangulation_cache
from luxel.scenes.captures.registry import CAPTURE_FORMATS, register_capture_format
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import load_points, save_points
from luxel.scenes.files.scene_files import save_scene
from luxel.scenes.files.volumes import read_volume
from luxel.scenes.paths import load_path

EditJson = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_too_few_views_are_left(toy: Path, edit_json: EditJson) -> None:
    edit_json(toy / "transforms.json", lambda document: document.update(frames=document["frames"][:9]))
    with pytest.raises(CaptureError, match=r"Only 0 views are left.*9 are held out.*--holdout-every"):
        scenes.open(toy, holdout_every=1)
    assert len(scenes.open(toy, holdout_every=3).train) == 6


def test_a_size_limit_without_pixels(toy: Path) -> None:
    with pytest.raises(CaptureError, match=r"max_size=0 is invalid.*positive number of pixels"):
        scenes.open(toy, max_size=0)


def test_a_mask_that_is_not_there(toy: Path, edit_json: EditJson) -> None:
    edit_json(toy / "transforms.json", lambda document: document["frames"][1].update(mask_path="no/mask.png"))
    with pytest.raises(CaptureError, match=r"the mask .*no/mask\.png is missing.*remove mask_path"):
        scenes.open(toy)
    edit_json(toy / "transforms.json", lambda document: document["frames"][1].pop("mask_path"))
    assert len(scenes.open(toy).views) == 16


def test_transforms_that_are_none(toy: Path) -> None:
    (toy / "transforms.json").write_text("[]")
    with pytest.raises(CaptureError, match=r"transforms\.json: .*object"):
        scenes.open(toy)
    (toy / "transforms.json").unlink()
    with pytest.raises(CaptureError, match=r"transforms\.json: "):
        read_transforms(toy, open_capture.ReadOptions())


def test_a_capture_without_permission(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path / "transforms.json"))

    monkeypatch.setattr(open_capture, "detect_format", closed)
    with pytest.raises(CaptureError, match=r"transforms\.json: cannot be read: no permission.*chmod u\+r"):
        scenes.open(toy)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=rf"{tmp_path}: there is no COLMAP model.*sparse/0"):
        read_colmap(tmp_path)


def test_an_image_that_a_model_lists_twice(tmp_path: Path) -> None:
    model = tmp_path / "sparse" / "0"
    model.mkdir(parents=True)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"")
    (model / "cameras.txt").write_text("1 PINHOLE 64 48 60 60 32 24\n")
    line = "{} 1 0 0 0 0 0 0 1 a.png\n\n"
    (model / "images.txt").write_text(line.format(1) + line.format(2))
    with pytest.raises(CaptureError, match=r"'a\.png': the image is listed twice"):
        read_colmap(tmp_path)


def test_points_that_cannot_be_triangulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends in a warning that names the reason, and random points."""
    nothing = Points(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))
    monkeypatch.setattr(triangulation_cache, "within_masks", lambda points, posed: points)
    monkeypatch.setattr(triangulation_cache, "triangulate", lambda *_: nothing)
    monkeypatch.setattr(choice, "scatter", lambda posed: nothing)
    warnings: list[str] = []
    choice.initial_points(
        tmp_path, [], warnings, use="triangulate", cache_dir=tmp_path, on_progress=lambda *_: None
    )
    assert "No points could be triangulated" in warnings[0] and "random points" in warnings[1]


def test_a_triangulation_that_fails(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no matches")

    pycolmap = SimpleNamespace(IncrementalPipelineOptions=SimpleNamespace, Reconstruction=broken)
    with pytest.raises(CaptureError, match=r"Triangulation.*failed \(no matches\)\. Check that the poses"):
        triangulated(MatchedImages(pycolmap, tmp_path, []), np.zeros((0, 4, 4)))


def test_points_that_are_none(tmp_path: Path) -> None:
    none = np.full((2, 3), np.nan, np.float32)
    save_points(tmp_path / "p.ply", Points(none, np.zeros((2, 3), np.uint8)))
    with pytest.raises(CaptureError, match=r"p\.ply: there are no points"):
        load_points(tmp_path / "p.ply")


def test_options_that_a_format_lacks(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"a\.ply: \.ply has no option half.*\.safetensors"):
        save_scene(tmp_path / "a.ply", Gaussians.empty(), half=True)
    save_scene(tmp_path / "a.safetensors", Gaussians.empty(), half=True)


def test_volumes_of_several_arrays(tmp_path: Path) -> None:
    volume = np.zeros((2, 3, 4), np.float32)
    np.savez(tmp_path / "v.npz", one=volume, two=volume)
    with pytest.raises(CaptureError, match=r"v\.npz: holds 2 arrays \(one, two\).*density"):
        read_volume(tmp_path / "v.npz")
    for arrays in ({"density": volume, "two": volume}, {"one": volume}):
        np.savez(tmp_path / "v.npz", **arrays)
        assert read_volume(tmp_path / "v.npz").shape == (2, 3, 4)


def test_a_path_with_a_lens_that_is_none(tmp_path: Path) -> None:
    entry = {"camera_to_world": np.eye(4).ravel().tolist(), "fx": -1.0}
    document = {"render_width": 8, "render_height": 6, "camera_path": [entry]}
    (tmp_path / "p.json").write_text(json.dumps(document))
    with pytest.raises(CaptureError, match=r"p\.json: camera 0: invalid intrinsics \[-1"):
        load_path(tmp_path / "p.json")


def test_names_of_capture_formats_are_taken_once() -> None:
    before = list(CAPTURE_FORMATS)
    with pytest.raises(ValueError, match=f"named {before[0].name!r} is already registered"):
        register_capture_format(before[0])
    assert before == CAPTURE_FORMATS
