"""Poses of a generated turntable from its photographs alone: the backdrop stands still, and sides look alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import luxel.scenes as scenes
from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.poses.pose_refinement import similarity
from luxel.scenes.synthetic.captures.turntable import write_turntable

VIEWS = 30


@pytest.mark.slow
def test_images_are_placed_around_the_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: no poses were estimated")
    monkeypatch.setattr(features, "FEATURES", 2048)
    capture = write_turntable(tmp_path, views=VIEWS, rings=1, width=480, height=360, kind="box", masks=False)
    truth = {Path(view.name).name: view.camera for view in scenes.open(capture.posed, holdout_every=0).views}
    opened = scenes.open(capture.photographs, holdout_every=0)
    assert len(opened.views) >= 0.9 * VIEWS
    pairs = [(view.camera, truth[Path(view.name).name]) for view in opened.views]
    ours, exact = (
        np.array([camera.position.tolist() for camera in side]) for side in zip(*pairs, strict=True)
    )
    scale, turn, shift = similarity(ours, exact)
    extent = np.median(np.linalg.norm(exact - exact.mean(0), axis=1))
    off = np.linalg.norm(scale * ours @ turn.T + shift - exact, axis=1)
    assert off.max() < 0.02 * extent
    for camera, right in pairs:
        rotation = right.world_to_cam[:3, :3].double().numpy() @ turn
        rotation = rotation @ camera.world_to_cam[:3, :3].double().numpy().T
        assert np.degrees(np.arccos(min(1.0, (np.trace(rotation) - 1) / 2))) < 2.0
