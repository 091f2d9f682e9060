"""What several viewer tests start from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luxel.render.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.rasterize import rasterize
from luxel.scenes.toy import write_toy_capture


@pytest.fixture(scope="session")
def toy_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen 64x48 pictures of a torus knot; not to be written to."""

    def draw(gaussians: Gaussians, camera: Camera) -> np.ndarray:
        return rasterize(gaussians, camera).rgb.numpy()

    return write_toy_capture(tmp_path_factory.mktemp("toy") / "knot", draw)
