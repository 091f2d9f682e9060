"""The image that a page shows while it loads."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import ball, ring, until
from PIL import Image
from shown import FirstImage, StaticSession, find_extent

from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.images.first_image import PREPARED
from luxel.viewer.web.navigate import Pose


@pytest.fixture
def first_of() -> Iterator[Callable[..., FirstImage]]:
    made: list[FirstImage] = []

    def first_of(session: StaticSession, render: Callable[..., Any] = rasterize) -> FirstImage:
        extent = find_extent(session.views, ball(), session.up, session.front)
        made.append(FirstImage(session, render, extent))
        return made[-1]

    yield first_of
    for first in made:
        first.close()


def fetched(first: FirstImage, query: str) -> np.ndarray:
    files: list[bytes] = []
    until(lambda: bool(files) or bool(files.extend(filter(None, [first.answer(query)]))), "there is no image")
    return np.asarray(Image.open(io.BytesIO(files[0])).convert("RGB")).astype(int)


def test_first_image_is_the_view_at_which_pages_begin(first_of: Callable[..., FirstImage]) -> None:
    views = ring()
    first = first_of(StaticSession(ball(), views))
    assert first.answer("width=330&height=200") is None, "a request waits for no render"
    image = fetched(first, "width=330&height=200")
    pose = Pose.of_camera(views[0].camera, 330 / 200)
    with torch.no_grad():
        frame = rasterize(ball(), Pose(pose.wxyz, pose.position, pose.fov_y, 330, 200).camera(330, 200))
    expected = frame.rgb.clamp(0, 1).mul(255).numpy()
    assert image.shape == (200, 330, 3) and expected.std() > 20
    assert np.abs(image - expected).mean() < 3, "JPEG changes colours by little"


def test_one_image_serves_windows_of_other_sizes_until_the_scene_changes(
    first_of: Callable[..., FirstImage],
) -> None:
    sizes: list[tuple[int, int]] = []

    def render(scene: Any, camera: Any, **options: Any) -> Any:
        sizes.append((camera.width, camera.height))
        return rasterize(scene, camera, **options)

    session = StaticSession(ball())
    first = first_of(session, render)
    first.prepare()
    for query in ("width=956&height=720", "width=700&height=600", "width=1280&height=720"):
        assert fetched(first, query).shape == (PREPARED[1], PREPARED[0], 3)
    assert fetched(first, "width=1000&height=300").shape == (300, 1000, 3), "wider than what was prepared"
    assert len(sizes) == 2
    session.show(ball())
    assert first.answer("width=956&height=720") is None, "the image is of the scene before"
    fetched(first, "width=956&height=720")
    assert len(sizes) == 3


def test_renders_that_fail_and_queries_without_a_size_have_no_image(
    first_of: Callable[..., FirstImage],
) -> None:
    def render(scene: Any, camera: Any, **options: Any) -> Any:
        raise RuntimeError("made up")

    first = first_of(StaticSession(ball()), render)
    for query in ("", "width=9", "width=-3&height=4", "width=nan&height=4", "width=9999999&height=2"):
        with pytest.raises(ValueError):
            first.answer(query)
    with pytest.raises(LookupError):
        fetched(first, "width=64&height=48")
