"""A few photographs that structure from motion places within seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from luxel.scenes.captures.colmap_process import features
from luxel.scenes.captures.demo import demo_path

COUNT = 6


@pytest.fixture
def quick_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few features of small images."""
    monkeypatch.setattr(features, "FEATURE_IMAGE_SIZE", 400)
    monkeypatch.setattr(features, "FEATURES", 1024)


@pytest.fixture
def few_images(tmp_path: Path, quick_features: None) -> Path:
    """A folder of photographs of the demo capture."""
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: structure from motion was not tested")
    folder = tmp_path / "photographs"
    folder.mkdir()
    for file in sorted((demo_path() / "images").glob("*.jpg"))[:COUNT]:
        shutil.copyfile(file, folder / file.name)
    return folder
