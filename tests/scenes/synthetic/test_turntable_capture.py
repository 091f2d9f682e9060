"""Generated photographs of an object on a turntable, with exact poses relative to it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.scenes.captures.capture_format import ReadOptions
from luxel.scenes.captures.images.masks import find_masks
from luxel.scenes.captures.open_capture import read_contents
from luxel.scenes.synthetic.captures.turntable import turntable_views, write_turntable
from luxel.scenes.synthetic.captures.turntable_object import KINDS_OF_OBJECT, ObjectRenderer, made_object


@pytest.mark.parametrize("kind", KINDS_OF_OBJECT)
def test_poses_and_masks_are_those_of_the_object(kind: str, tmp_path: Path) -> None:
    capture = write_turntable(tmp_path, views=6, width=96, height=72, kind=kind, samples=1)
    corners = np.concatenate([solid.corners for solid in made_object(kind)])
    images = read_contents(capture.posed, ReadOptions()).images
    find_masks(capture.posed, images)
    assert len(images) == 6
    for image in images:
        assert image.mask is not None
        rows, columns = np.nonzero(np.asarray(Image.open(image.mask)) > 0)
        local = corners @ image.world_to_cam[:3, :3].T + image.world_to_cam[:3, 3]
        lens = image.lens
        x, y = lens.fx * local[:, 0] / local[:, 2] + lens.cx, lens.fy * local[:, 1] / local[:, 2] + lens.cy
        assert x.min() - 2 < columns.min() and columns.max() < x.max() + 2
        assert y.min() - 2 < rows.min() and rows.max() < y.max() + 2
        assert len(rows) > 0.2 * np.ptp(x) * np.ptp(y)


def test_photographs_are_alone_and_the_background_stands_still(tmp_path: Path) -> None:
    capture = write_turntable(tmp_path, views=6, rings=2, width=96, height=72, exposure=False)
    assert [entry.name for entry in capture.photographs.iterdir()] == ["images"]
    assert (capture.gains == 1).all()
    files = sorted((capture.photographs / "images").iterdir())
    images = np.stack([np.asarray(Image.open(file), float) for file in files])
    masks = np.stack([np.asarray(Image.open(capture.posed / "masks" / f"{file.name}.png")) for file in files])
    turn, other = images[:3], images[3:]
    sky = np.logical_not(np.any(masks > 0, axis=0))[:20]
    assert np.abs(turn[0] - turn[1])[:20][sky].mean() < 4 < np.abs(turn[0] - other[0])[:20][sky].mean()
    both = (masks[0] > 0) & (masks[1] > 0)
    assert np.abs(turn[0] - turn[1])[both].mean() > 8


def test_exposure_changes_from_image_to_image(tmp_path: Path) -> None:
    capture = write_turntable(tmp_path, views=4, rings=1, width=64, height=48, masks=False)
    assert not (capture.posed / "masks").exists()
    files = sorted((capture.photographs / "images").iterdir())
    level = np.array([np.asarray(Image.open(file), float)[:8].mean() for file in files])
    gains = capture.gains.mean(1) ** (1 / 2.2)
    assert np.ptp(np.log(gains)) > 0.05
    assert np.allclose(level / level.mean(), gains / gains.mean(), atol=0.03)


def test_a_camera_moves_around_the_object_by_even_steps() -> None:
    views = turntable_views(24, 64, 48, rings=2)
    assert len({tuple(view.still.position.tolist()) for view in views}) == 2
    ring = [view for view in views if view.ring == 0]
    turns = [
        np.degrees(
            np.arccos(
                (
                    np.trace(a.camera.world_to_cam[:3, :3].numpy() @ b.camera.world_to_cam[:3, :3].numpy().T)
                    - 1
                )
                / 2
            )
        )
        for a, b in pairwise(ring)
    ]
    assert min(turns) > 20 and max(turns) < 40


def test_an_object_outside_the_image_is_not_rendered() -> None:
    view = turntable_views(3, 32, 24, rings=1)[0]
    behind = view.camera.world_to_cam.clone()
    behind[2, 3] -= 20
    surroundings = torch.full((24, 32, 3), 0.5)
    away = type(view.camera)(behind, view.camera.intrinsics, 32, 24)
    light = torch.tensor([0.0, 0.0, 1.0])
    rgb, alpha = ObjectRenderer(made_object("box")).render(away, light, surroundings)
    assert (rgb == 0.5).all() and (alpha == 0).all()


def test_unknown_objects_and_too_few_views(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind must be one of box, jar, toy"):
        write_turntable(tmp_path, kind="sofa")
    with pytest.raises(ValueError, match="views >= 3"):
        write_turntable(tmp_path, views=5, rings=2)
