"""Labels of primitives in scene files, and true ids of views."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.scenes import CaptureError, load_primitives, save_scene
from luxel.scenes.captures.true_ids import have_ids, ids_path, nearest_pixels, read_ids
from luxel.scenes.files.ply import read_vertices, write_rows
from luxel.scenes.files.scenes.label_column import load_labels


@pytest.mark.parametrize("suffix", [".ply", ".safetensors"])
def test_labels_beside_the_parameters(random_gaussians, tmp_path: Path, suffix: str):
    scene, labels = random_gaussians(20_000), torch.arange(20_000).to(torch.uint8)
    path = tmp_path / f"scene{suffix}"
    save_scene(path, scene, labels=labels)
    assert torch.equal(load_labels(path), labels)
    for name, tensor in load_primitives(path).tensors().items():
        torch.testing.assert_close(tensor, scene.tensors()[name])
    if suffix == ".ply":
        assert read_vertices(path).dtype["label"] == np.uint8


def test_formats_without_labels(random_gaussians, tmp_path: Path):
    with pytest.raises(CaptureError, match=r"\.splat has no option labels"):
        save_scene(tmp_path / "scene.splat", random_gaussians(5), labels=torch.zeros(5, dtype=torch.uint8))


def test_labels_that_are_no_labels(tmp_path: Path):
    write_rows(tmp_path / "a.ply", ["x", "label"], 2, [np.array([[0, 1], [0, 2.5]])])
    with pytest.raises(CaptureError, match="integers from 0 to 255"):
        load_labels(tmp_path / "a.ply")


def view_of(folder: Path, ids: np.ndarray | None) -> View:
    """A view of a Blender capture with true ids beside it."""
    frame = {"file_path": "./r_0", "ids_path": "./r_0_ids.png"}
    (folder / "transforms_train.json").write_text(json.dumps({"frames": [frame]}))
    Image.new("RGB", (6, 4)).save(folder / "r_0.png")
    if ids is not None:
        Image.fromarray(ids).save(folder / "r_0_ids.png")
    camera = Camera(torch.eye(4), torch.ones(4), 3, 2)
    return View("r_0", camera, lambda: Pixels(np.zeros((2, 3, 3), np.uint8)), path=folder / "r_0.png")


def test_true_ids_of_a_view(tmp_path: Path):
    ids = np.arange(24, dtype=np.uint8).reshape(4, 6)
    view = view_of(tmp_path, ids)
    assert ids_path(view) == tmp_path.resolve() / "r_0_ids.png"
    assert have_ids([view])
    np.testing.assert_array_equal(read_ids(view), ids[1::2, 1::2])
    assert nearest_pixels(ids, 6, 4) is ids


def test_views_without_true_ids(tmp_path: Path):
    view = view_of(tmp_path, None)
    assert not have_ids([view]) and not have_ids([])
    with pytest.raises(CaptureError, match="no true ids of this view"):
        read_ids(view)
    coloured = view_of(tmp_path, np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(CaptureError, match="grey image of 8 bits"):
        read_ids(coloured)
