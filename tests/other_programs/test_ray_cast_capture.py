"""The made captures are read as they were made, and nothing is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ray_cast_capture import FOCAL, colmap_capture, ring, transforms_capture

from luxel import scenes


@pytest.mark.parametrize("kind", ["text", "binary", "transforms"])
def test_a_sound_capture_is_read_and_nothing_is_said(kind: str, tmp_path: Path) -> None:
    capture = scenes.open(
        transforms_capture(tmp_path)
        if kind == "transforms"
        else colmap_capture(tmp_path, binary=kind == "binary")
    )
    assert capture.warnings == [] and capture.unused == []
    assert len(capture.views) == 8 and len(capture.points.xyz) == 600
    for view, pose in zip(capture.views, ring(), strict=True):
        expected = np.linalg.inv(pose)
        np.testing.assert_allclose(view.camera.world_to_cam.double().numpy(), expected, atol=2e-6)
        assert view.camera.intrinsics[0] == FOCAL
