"""MobileSAM masks the whole object of a generated turntable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.scenes.captures.caching.capture_cache import CaptureCache
from luxel.scenes.captures.capture_format import ignore_progress
from luxel.scenes.captures.contents import SourceImage
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.captures.poses.object_masks import mask_object
from luxel.scenes.synthetic.captures.pose_captures import turntable
from luxel.scenes.synthetic.rays.ray_caster import StaticScene
from luxel.scenes.synthetic.toy import as_bytes

STILL = 3  # solids that are not the object: backdrop, table, plate


@pytest.mark.slow
def test_masks_are_those_of_the_whole_object(tmp_path: Path) -> None:
    sources, truth = [], []
    for index, view in enumerate(turntable(6, 320, 240, 0)):
        scene = StaticScene(view.solids, 0, torch.device("cpu"), shadow_radius=8.0, shadow_side=256)
        cast = scene.render(view.visible_from, samples=1)
        path = tmp_path / f"{index}.png"
        Image.fromarray(as_bytes(cast.rgb.numpy())).save(path)
        sources.append(SourceImage(path.name, path, Lens(320, 240, 440.0, 440.0, 160.0, 120.0), np.eye(4)))
        truth.append(cast.ids.numpy() >= STILL)
    mask_object(sources, CaptureCache(tmp_path), ignore_progress)
    for source, expected in zip(sources, truth, strict=True):
        assert source.mask is not None
        mask = np.asarray(Image.open(source.mask)) > 0
        assert (mask & expected).sum() > 0.9 * (mask | expected).sum()
