"""Fixtures of the scenes tests: a small capture on disk, drawn without the rasterizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.scenes.synthetic.toy import write_toy_capture


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the user, a folder of the test."""
    folder = tmp_path_factory.mktemp("user-cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "luxel"


def draw_discs(gaussians: Gaussians, camera: Camera) -> np.ndarray:
    """Each Gaussian as a square of its colour, far ones first, uint8 [H, W, 4] with alpha."""
    means = gaussians.means.double().numpy()
    local = (
        means @ camera.world_to_cam[:3, :3].double().numpy().T + camera.world_to_cam[:3, 3].double().numpy()
    )
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    image = np.zeros((camera.height, camera.width, 4), np.uint8)
    colour = np.clip((0.5 + SH_C0 * gaussians.sh_dc.numpy()) * 255, 0, 255).astype(np.uint8)
    for i in np.argsort(-local[:, 2]):
        x, y, z = local[i]
        if z > 0:
            column, row = int(x / z * fx + cx), int(y / z * fy + cy)
            square = image[max(row - 1, 0) : max(row + 2, 0), max(column - 1, 0) : max(column + 2, 0)]
            square[..., :3], square[..., 3] = colour[i], 255
    return image


def draw_opaque(gaussians: Gaussians, camera: Camera) -> np.ndarray:
    """The same without alpha, on grey."""
    image = draw_discs(gaussians, camera)
    return np.where(image[..., 3:] > 0, image[..., :3], np.uint8(90))


@pytest.fixture(scope="session")
def toy_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_capture(tmp_path_factory.mktemp("toy") / "knot", draw_opaque)


@pytest.fixture
def toy(toy_original: Path, tmp_path: Path) -> Path:
    """A copy of a small capture of 16 opaque views, 64x48, with points: free to be damaged."""
    return Path(shutil.copytree(toy_original, tmp_path / "knot"))


@pytest.fixture
def cutout_toy(tmp_path: Path) -> Path:
    """The same with alpha channels."""
    return write_toy_capture(tmp_path / "cutout", draw_discs)


@pytest.fixture
def edit_json() -> Callable[[Path, Callable[[dict], object]], None]:
    """Changes a JSON file in place by a function."""

    def edit(path: Path, change: Callable[[dict], object]) -> None:
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit
