"""The capture of a rig: what is written, which pairs are held out, and that every camera sees the same instant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.camera_rig import is_held_out, rig_cameras, write_rig_capture
from luxel.scenes.synthetic.example_scenes import dynamic_scene


def test_a_rig_is_read_with_times_and_pairs(tmp_path: Path) -> None:
    folder = write_rig_capture(tmp_path, cameras=4, times=5, width=40, height=30, seconds=2.0, points=300)
    capture = open_capture(folder)
    assert len(capture.train) == 16 and len(capture.test) == 4 and len(capture.points.xyz) == 300
    assert sorted(view.time for view in capture.test) == pytest.approx([0.5, 1.0, 1.5, 2.0])
    times = Counter(round(view.time, 6) for view in (*capture.train, *capture.test))
    assert set(times.values()) == {4} and capture.cutout
    view = next(view for view in capture.train if view.name == "cam2/003.png")
    expected = dynamic_scene().render(view.camera, 0.75)
    pixels = view.read()
    assert pixels.alpha is not None and np.abs(pixels.alpha - 255 * expected.alpha).max() < 1
    assert np.abs(pixels.rgb - 255 * expected.rgb)[expected.alpha > 0].max() < 1
    assert 0.1 < (expected.alpha > 0).mean() < 0.7, "the scene fills the image"


@pytest.mark.parametrize("cameras, times", [(8, 60), (5, 9)])
def test_one_camera_of_each_time_is_held_out(cameras: int, times: int) -> None:
    pairs = [(c, t) for c in range(cameras) for t in range(times) if is_held_out(c, t, cameras, "pairs")]
    assert [t for _, t in sorted(pairs, key=lambda pair: pair[1])] == list(range(1, times))
    held = Counter(camera for camera, _ in pairs)
    assert len(held) == cameras and max(held.values()) - min(held.values()) <= 1
    assert all((c, t + 1) not in pairs for c, t in pairs), "each has views just before and after"
    whole = {(c, t) for c in range(cameras) for t in range(times) if is_held_out(c, t, cameras, "camera")}
    assert whole == {(cameras - 1, t) for t in range(times)}


def test_cameras_are_all_around() -> None:
    rig = rig_cameras(8, 64, 48)
    eyes = np.stack([camera.position.numpy() for camera in rig])
    assert np.abs(eyes[:, :2].mean(0)).max() < 1e-5 and np.ptp(eyes[:, 2]) > 1
    assert np.linalg.norm(eyes, axis=1) == pytest.approx(np.full(8, 4.0))


@pytest.mark.parametrize("wrong", [{"cameras": 2}, {"times": 1}, {"seconds": 0.0}, {"hold_out": "time"}])
def test_what_is_no_rig_is_refused(wrong: dict, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cameras must be at least 3"):
        write_rig_capture(tmp_path, **wrong)
