"""Which photographs are matched."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luxel.scenes.captures.colmap_process import pairs
from luxel.scenes.captures.colmap_process.pairs import neighbours_in_order, pairs_by_pose, pairs_to_match


def test_neighbours_in_order() -> None:
    chosen = neighbours_in_order(200)
    assert len(chosen) == len(set(chosen)) < 4000 and (0, 1) in chosen and (0, 128) in chosen
    assert all(a < b for a, b in chosen)


def test_pairs_by_pose() -> None:
    names = [str(i) for i in range(20)]
    poses = np.tile(np.eye(4), (20, 1, 1))
    poses[:, 0, 3] = np.arange(20)
    near = pairs_by_pose(names, poses, nearest=2)
    assert ("4", "5") in near and ("4", "9") not in near and len(near) < 25


class Features:
    """A database of images with random features, of which every fifth image shows the same place."""

    def __init__(self, count: int) -> None:
        random = np.random.default_rng(3)
        places = [random.integers(0, 255, (40, 128)) for _ in range(count // 5)]
        self.rows = [places[i % len(places)] + random.integers(0, 5, (40, 128)) for i in range(count)]

    def __enter__(self) -> Features:
        return self

    def __exit__(self, *rest: object) -> None:
        return None

    def read_all_images(self) -> list[Any]:
        return [types.SimpleNamespace(name=f"{i}.jpg", image_id=i + 1) for i in range(len(self.rows))]

    def read_descriptors(self, key: int) -> Any:
        return types.SimpleNamespace(data=self.rows[key - 1])


def test_unordered_photographs_are_matched_with_those_that_look_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "EXHAUSTIVE_UP_TO", 10)
    monkeypatch.setattr(pairs, "ALIKE", 4)
    features = Features(60)
    module = types.SimpleNamespace(Database=types.SimpleNamespace(open=lambda path: features))
    names = [f"{i}.jpg" for i in range(60)]
    chosen = pairs_to_match(module, Path("none"), names)
    assert len(chosen) == len(set(chosen))
    assert all((f"{i}.jpg", f"{i + 12 * k}.jpg") in chosen for i in range(12) for k in (1, 2, 3, 4))
    assert ("0.jpg", "35.jpg") not in chosen
    assert len(pairs_to_match(module, Path("none"), names[:10])) == 45
