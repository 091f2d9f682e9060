"""Poses of a generated turntable from its photographs alone: the backdrop stands still, and sides look alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.captures.poses.pose_refinement import similarity
from luxel.scenes.geometry import invert_rigid
from luxel.scenes.synthetic.captures.turntable import write_turntable

VIEWS = 30


@pytest.mark.slow
def test_images_are_placed_around_the_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: no poses were estimated")
    monkeypatch.setattr(features, "FEATURES", 2048)
    capture = write_turntable(tmp_path, views=VIEWS, rings=1, width=480, height=360, kind="box", masks=False)
    known = read_contents(capture.posed, ReadOptions()).images
    truth = {image.path.name: invert_rigid(image.world_to_cam) for image in known}
    placed = read_contents(capture.photographs, ReadOptions(cache_dir=tmp_path / "cache")).images
    assert len(placed) >= 0.9 * VIEWS
    inverse = [invert_rigid(image.world_to_cam) for image in placed]
    right = [truth[image.path.name] for image in placed]
    ours, exact = (np.stack([pose[:3, 3] for pose in poses]) for poses in (inverse, right))
    scale, turn, shift = similarity(ours, exact)
    extent = np.median(np.linalg.norm(exact - exact.mean(0), axis=1))
    off = np.linalg.norm(scale * ours @ turn.T + shift - exact, axis=1)
    assert off.max() < 0.02 * extent
    for pose, expected in zip(inverse, right, strict=True):
        rotation = expected[:3, :3].T @ turn @ pose[:3, :3]
        assert np.degrees(np.arccos(min(1.0, (np.trace(rotation) - 1) / 2))) < 2.0
