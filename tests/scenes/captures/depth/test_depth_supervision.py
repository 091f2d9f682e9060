"""Depth that views of a capture get for training: of maps, of points, of both; and captures that have none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from test_depth_maps import COUNT, SIZE, capture, edit
from test_depth_points import write_tracks

import luxel.scenes as scenes
from luxel.render.geometry.camera import Points
from luxel.scenes.captures.depth.points import PointDepth
from luxel.scenes.errors import CaptureError

__all__ = ["capture"]  # a fixture


def test_maps_points_and_both(capture: Path) -> None:
    for index in (0, 3):
        edit(capture, lambda document, index=index: document["frames"][index].pop("depth_file_path"))
    opened = scenes.open(capture)
    assert all(view.depth is None for view in opened.views)
    scenes.supervise(opened, "maps")
    known = {view.name: None if view.depth is None else (view.depth() > 0).mean() for view in opened.views}
    assert [name for name, share in known.items() if share is None] == ["0.png", "3.png"]
    assert known["1.png"] == 1.0
    assert [w.partition(" (")[0] for w in opened.warnings] == ["2 depth maps are not used"]
    scenes.supervise(opened, "points")
    maps = opened.depths["1.png"]()
    for view in opened.views:
        assert view.depth is not None and 0.02 < (view.depth() > 0).mean() < 0.9, view.name
    points = opened.views[1].depth()  # type: ignore[misc]
    assert np.median(np.abs(points[points > 0] / maps[points > 0] - 1)) < 0.02
    path = capture / "depth1.png"
    values = np.asarray(Image.open(path)).copy()
    values[:18] = 0
    Image.fromarray(values).save(path)
    scenes.supervise(opened, "all")
    both = opened.views[1].depth()  # type: ignore[misc]
    assert (both[40:] > 0).all() and 0.02 < (both[:30] > 0).mean() < 0.9
    scenes.supervise(opened, "none")
    assert all(view.depth is None for view in opened.views)


def test_another_scale_of_the_maps_is_said_unless_it_is_fitted(capture: Path) -> None:
    scenes.save_points(capture / "points3D.ply", scenes.open(capture).points)
    edit(capture, lambda document: document.update(depth_unit_scale_factor=0.0011))
    opened = scenes.open(capture)
    scenes.supervise(opened, "maps", metric=False)
    assert not opened.warnings
    scenes.supervise(opened, "maps")
    assert len(opened.warnings) == 1 and "have 1.1 times the distances of the points" in opened.warnings[0]
    assert "--depth-scale align" in opened.warnings[0]


def test_points_of_a_file(capture: Path) -> None:
    opened = scenes.open(capture)
    scan = capture / "scan.ply"
    scenes.save_points(scan, Points(opened.points.xyz[::7], opened.points.rgb[::7]))
    scenes.supervise(opened, "points")
    of_capture = sum(int((view.depth() > 0).sum()) for view in opened.views)  # type: ignore[misc]
    scenes.supervise(opened, "points", points=scan)
    of_scan = sum(int((view.depth() > 0).sum()) for view in opened.views)  # type: ignore[misc]
    assert 0.1 * of_capture < of_scan < 0.5 * of_capture
    scenes.save_points(scan, Points(opened.points.xyz + 1000, opened.points.rgb))
    with pytest.raises(CaptureError, match=r"scan.ply: no training view sees a point of it"):
        scenes.supervise(opened, "points", points=scan)
    scan.write_bytes(b"LASF")
    with pytest.raises(CaptureError, match=r"scan.ply: "):
        scenes.supervise(opened, "points", points=scan)
    with pytest.raises(CaptureError, match="its points are not used with depth 'maps'"):
        scenes.supervise(opened, "maps", points=scan)


def test_views_of_a_colmap_model_see_the_points_of_their_tracks(tmp_path: Path) -> None:
    write_tracks(tmp_path, text=True)
    (tmp_path / "cameras.txt").write_text("1 PINHOLE 64 48 60 60 32 24\n")
    (tmp_path / "images" / "in").mkdir(parents=True)
    for index in range(1, 5):
        Image.new("RGB", (64, 48), (index, 0, 0)).save(tmp_path / "images" / "in" / f"{index}.png")
    opened = scenes.open(tmp_path, holdout_every=0)
    scenes.supervise(opened, "points")
    seen = {view.name: view.depth for view in opened.views}
    assert all(isinstance(depth, PointDepth) and depth.seen for depth in seen.values())
    counts = {name: int((depth() > 0).sum()) for name, depth in seen.items()}  # type: ignore[misc]
    assert counts == {"1.png": 1, "2.png": 1, "3.png": 1, "4.png": 0}, (
        "the point of x = 4 is beside the images"
    )


def test_captures_without_depth(capture: Path) -> None:
    edit(capture, lambda document: [frame.pop("depth_file_path") for frame in document["frames"]])
    scenes.save_points(
        capture / "points3D.ply", Points(np.ones((3, 3), np.float32), np.zeros((3, 3), np.uint8))
    )
    opened = scenes.open(capture)
    with pytest.raises(CaptureError, match="there are no depth maps") as caught:
        scenes.supervise(opened, "maps")
    assert "depths/" in caught.value.remedy
    document = json.loads((capture / "transforms.json").read_text())
    assert len(document["frames"]) == COUNT and SIZE == (96, 72)


def test_maps_of_held_out_views_alone_train_nothing(capture: Path) -> None:
    edit(capture, lambda document: [frame.pop("depth_file_path") for frame in document["frames"][1:]])
    opened = scenes.open(capture)
    assert [view.name for view in opened.test] == ["0.png"]
    with pytest.raises(CaptureError, match="no training view has a depth map"):
        scenes.supervise(opened, "maps")


def test_photographs_that_keep_their_lens_have_no_depth(capture: Path) -> None:
    opened = scenes.open(capture)
    view = opened.train[0]
    view.camera = replace(view.camera, lens=torch.zeros(8))
    with pytest.raises(CaptureError, match="undistorted images only"):
        scenes.supervise(opened, "maps")
    scenes.supervise(opened, "none")
