"""Triangulated points are kept, and used again for the same cameras only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera, Points
from luxel.scenes.captures.images.images import ImageReader
from luxel.scenes.captures.initial_points import triangulation_cache
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.triangulate import PosedImage

FOUND = 600


@pytest.fixture
def posed(tmp_path: Path) -> list[PosedImage]:
    out = []
    for number in range(4):
        Image.new("RGB", (16, 12)).save(tmp_path / f"{number}.png")
        camera = Camera.look_at(
            (float(np.cos(number)), float(np.sin(number)), 1), (0, 0, 0), width=16, height=12
        )
        lens = Lens(16, 12, 20.0, 20.0, 8.0, 6.0)
        out.append((camera, ImageReader(tmp_path / f"{number}.png", lens, 16, 12)))
    return out


class Triangulations:
    """Counts them; each finds other points."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.count = folder, 0
        monkeypatch.setattr(triangulation_cache, "triangulate", self._found)

    def _found(self, *_: object) -> Points:
        self.count += 1
        return Points(np.full((FOUND, 3), self.count, np.float32), np.zeros((FOUND, 3), np.uint8))

    def of(self, posed: list[PosedImage]) -> float:
        points = triangulation_cache.triangulated_points(
            self.folder, posed, cache_dir=self.folder, on_progress=lambda *_: None
        )
        assert len(points.xyz) == FOUND
        return float(points.xyz[0, 0])


def moved(posed: list[PosedImage], by: float) -> list[PosedImage]:
    return [(replace(c, world_to_cam=c.world_to_cam + by * torch.eye(4)), reader) for c, reader in posed]


def test_points_are_kept(tmp_path: Path, posed: list, monkeypatch: pytest.MonkeyPatch) -> None:
    points = Triangulations(tmp_path, monkeypatch)
    assert [points.of(posed), points.of(posed)] == [1, 1]


def test_another_processor_finds_them_again(
    tmp_path: Path, posed: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = Triangulations(tmp_path, monkeypatch)
    assert [points.of(posed), points.of(moved(posed, 1e-7))] == [1, 1], "last bits differ"


def test_other_poses_have_other_points(tmp_path: Path, posed: list, monkeypatch: pytest.MonkeyPatch) -> None:
    points = Triangulations(tmp_path, monkeypatch)
    assert [points.of(posed), points.of(moved(posed, 1e-3)), points.of(posed)] == [1, 2, 3]


def test_points_without_their_cameras_are_not_used(
    tmp_path: Path, own_cache: Path, posed: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = Triangulations(tmp_path, monkeypatch)
    points.of(posed)
    (cameras,) = tmp_path.rglob("*.cameras.npy")
    cameras.write_bytes(cameras.read_bytes()[:40])
    damaged = cameras.read_bytes()
    assert [points.of(posed), points.of(posed)] == [2, 2], "stored in the cache of the user"
    assert cameras.read_bytes() == damaged, "it cannot be seen that luxel wrote it"
    (again,) = own_cache.rglob("*.cameras.npy")
    again.unlink()
    assert points.of(posed) == 3
