"""A capture that does not fit into memory trains all the same, and its images are neither kept nor all read first."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.captures.large_capture import HEIGHT, WIDTH, measure, write_capture

import luxel.scenes as scenes

COUNT = 150
LIMIT = 3_000_000_000  # bytes; a step on such an image takes two thirds of it
DECODED = COUNT * WIDTH * HEIGHT * 3
OPTIONS = [
    "--steps",
    "6",
    "--max-gaussians",
    "1000",
    "--holdout-every",
    "75",
    "--no-lpips",
    "--device",
    "cpu",
]


@pytest.mark.slow
def test_training_streams_from_disk_within_a_limit(tmp_path: Path) -> None:
    write_capture(tmp_path / "capture", COUNT)
    taken = measure(tmp_path / "capture", tmp_path / "run", LIMIT, OPTIONS, timeout=500)
    assert taken.status == 0, taken.output
    assert "they do not fit into memory" in taken.output and "are streamed step by step" in taken.output
    assert "held-out PSNR" in taken.output and (tmp_path / "run/scene.ply").is_file()
    assert taken.peak < LIMIT, "and the decoded images, which are more than half of it, were never all there"
    assert DECODED > LIMIT / 2


def test_the_generated_capture_is_exact(tmp_path: Path) -> None:
    """Points have their colours in every photograph that shows them: poses and pixels belong together."""
    write_capture(tmp_path, 6, width=400, height=300)
    capture = scenes.open(tmp_path)
    assert len({view.read().rgb.tobytes() for view in capture.views}) == 6
    near = []
    for view in capture.views:
        world_to_cam = view.camera.world_to_cam.double().numpy()
        at = capture.points.xyz @ world_to_cam[:3, :3].T + world_to_cam[:3, 3]
        fx, fy, cx, cy = view.camera.intrinsics.tolist()
        x, y = (fx * at[:, 0] / at[:, 2] + cx).astype(int), (fy * at[:, 1] / at[:, 2] + cy).astype(int)
        inside = (at[:, 2] > 0) & (x > 2) & (x < 397) & (y > 2) & (y < 297)
        seen = view.read().rgb[y[inside], x[inside]].astype(float)
        apart = abs(seen - capture.points.rgb[inside]).mean(1)
        near.append((apart < 20).mean())  # OpenCV 4 draws one view with 0.899; poses 3 pixels off: 0.83
        assert inside.sum() > 500 and near[-1] > 0.87
    assert sum(near) > 0.9 * len(near)
