"""The demo capture of the package."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

import luxel.scenes as scenes
from luxel.scenes.captures.demo import CREDIT


def test_demo_capture_is_complete() -> None:
    folder = scenes.demo_path()
    assert "Attribution 4.0" in (folder / "LICENSE.md").read_text()
    assert "Daniel Pett" in (folder / "ATTRIBUTION.md").read_text() and "CC BY 4.0" in CREDIT
    capture = scenes.open(folder)
    assert (len(capture.train), len(capture.test), len(capture.points.xyz)) == (60, 9, 29949)
    assert capture.cutout and capture.background == (1.0, 1.0, 1.0) and not capture.warnings


def test_demo_points_lie_on_the_object() -> None:
    capture = scenes.open(scenes.demo_path())
    points = np.concatenate([capture.points.xyz, np.ones_like(capture.points.xyz[:, :1])], axis=1)
    for view in capture.views[::10]:
        local = points @ view.camera.world_to_cam.numpy().T
        fx, fy, cx, cy = view.camera.intrinsics.tolist()
        column, row = local[:, 0] / local[:, 2] * fx + cx, local[:, 1] / local[:, 2] * fy + cy
        inside = (column >= 0) & (column < 432) & (row >= 0) & (row < 432) & (local[:, 2] > 0)
        alpha = view.read().alpha
        assert inside.mean() > 0.9 and alpha is not None
        assert (alpha[row[inside].astype(int), column[inside].astype(int)] > 128).mean() > 0.95, view.name


def test_demo_masks_keep_the_inside_of_the_vessel() -> None:
    for view in scenes.open(scenes.demo_path()).views:
        alpha = view.read().alpha
        assert alpha is not None
        kept = alpha >= 128
        holes = np.count_nonzero(ndimage.binary_fill_holes(kept)) - np.count_nonzero(kept)
        assert holes < 3000, view.name  # the hole in the handle is smaller, the mouth larger
