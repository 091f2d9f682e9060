"""Ellipsoids, points and overdraw of every primitive, against what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, cut, newest_client, ring, screenshot, until
from shown import StaticSession, ViewerApp, draw, outputs_of, scene_of

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.shading.legend import legend_of
from luxel.viewer.web.shading.probe import contributors
from luxel.viewer.web.shading.shading import OUTPUTS, DisplaySettings, render_frame

CAMERA = Camera.look_at((3.5, 0.0, 1.0), (0, 0, 0), fov_y=0.9, width=64, height=48)
SHAPES = tuple(name for name, output in OUTPUTS.items() if output.shape is not None)


def frame_of(scene: Any, output: str, camera: Camera = CAMERA, **settings: Any) -> Any:
    """The frame behind an output."""
    entry = OUTPUTS[output]
    with torch.no_grad():
        return render_frame(scene_of(scene), camera, DisplaySettings(**settings), entry)[0]


def single(opacity: float = 0.3, scale: float = 0.4) -> Gaussians:
    """One red ball at the origin."""
    logit = float(torch.logit(torch.tensor(opacity)))
    return Gaussians(
        torch.zeros(1, 3),
        torch.tensor([[1.0, 0, 0, 0]]),
        torch.full((1, 3), scale).log(),
        torch.full((1,), logit),
        torch.tensor([[1.5, -1.5, -1.5]]),
        torch.zeros(1, 0, 3),
    )


@pytest.mark.parametrize("output", SHAPES)
def test_every_primitive_has_every_shape(
    output: str,
    crystals: Callable[..., Convexes],
    carousel: Callable[..., Gaussians4d],
) -> None:
    for scene in (ball(), crystals(20), carousel()):
        assert output in outputs_of(type(scene))
        image, _ = draw(rasterize, scene, CAMERA, DisplaySettings(output=output, antialiased=True))
        assert image.shape == (48, 64, 3) and image.float().std() > 3, type(scene)


def test_an_ellipsoid_is_opaque_up_to_its_surface() -> None:
    plain, solid = frame_of(single(), "alpha").alpha, frame_of(single(), "ellipsoids").alpha
    assert plain[24, 32] < 0.31 and solid[24, 32] > 0.98
    soft = ((solid > 0.02) & (solid < 0.98)).sum() / (solid > 0.5).sum()
    assert soft < 0.12, "the border is narrow"
    focal = float(CAMERA.intrinsics[1])
    expected = np.pi * (1.5 * 0.4 * focal / float(CAMERA.position.norm())) ** 2  # of a radius of 1.5 sigma
    assert float((solid > 0.5).sum()) == pytest.approx(expected, rel=0.12)


def test_the_nearer_ellipsoid_hides_the_other() -> None:
    two = Gaussians.cat(single(), single())
    two.means[1] = torch.tensor([-1.5, 0.0, -0.4])
    two.sh_dc[1] = torch.tensor([-1.5, 1.5, -1.5])
    centre = frame_of(two, "ellipsoids").rgb[24, 32]
    assert centre[0] > 0.5 and centre[1] < 0.1 * centre[0]


def test_points_have_the_same_size_at_any_distance_and_scale() -> None:
    areas = []
    for distance, scale in ((2.0, 0.4), (20.0, 0.01)):
        camera = Camera.look_at((distance, 0, 0), (0, 0, 0), fov_y=0.9, width=65, height=49)
        alpha = frame_of(single(0.05, scale), "points", camera).alpha
        areas.append(int((alpha > 0.5).sum()))
    assert areas[0] == areas[1] and 4 <= areas[0] <= 16


def test_overdraw_counts_what_is_hidden_and_reaches_as_far() -> None:
    opaque = single(0.99)
    stack = Gaussians.cat(opaque, opaque)
    for _ in range(4):
        stack = Gaussians.cat(stack, stack)  # 32 of them
    seen, all_of_them = frame_of(stack, "count").count, frame_of(stack, "overdraw").count
    assert int(seen[24, 32]) < 5, "the first ones hide the others"
    assert int(all_of_them[24, 32]) == 32
    one, reach = frame_of(opaque, "count").count > 0, frame_of(opaque, "overdraw").count > 0
    assert int((one != reach).sum()) <= 0.02 * int(one.sum())
    _, caption = draw(rasterize, stack, CAMERA, DisplaySettings(output="overdraw"))
    legend = legend_of(caption)
    assert legend is not None and legend.high.startswith("32 per pixel")


@pytest.mark.gpu
@pytest.mark.parametrize("output", SHAPES)
def test_shapes_are_the_same_on_the_gpu(
    output: str,
    gpu: torch.device,
    crystals: Callable[..., Convexes],
    carousel: Callable[..., Gaussians4d],
) -> None:
    for scene in (ball(), crystals(20), carousel()):
        expected = frame_of(scene, output).rgb
        drawn = frame_of(scene.to(gpu), output, CAMERA.to(gpu)).rgb.cpu()
        apart = (drawn - expected).abs().amax(
            -1
        ) > 0.02  # hard borders: a pixel on one may fall to either side
        assert float(apart.float().mean()) < 0.01, type(scene)
        there, here = (
            contributors(
                scene.to(device),
                rasterize(scene.to(device), CAMERA.to(device), time=0.3 if scene.moves else None),
                32,
                24,
            )
            for device in (gpu, torch.device("cpu"))
        )
        assert there is not None and here is not None and there[0] == here[0]


@pytest.mark.slow
def test_the_page_offers_the_shapes_with_a_colour_bar(open_page: Callable[..., Any], tmp_path: Any) -> None:
    with ViewerApp(StaticSession(ball(), ring(), "ball"), port=0) as app:
        page = open_page(app, width=1100, height=700)
        client = newest_client(app)
        for output in SHAPES:
            page.get_by_label("Output").click()
            page.get_by_role("option", name=output).click()
            stream = app._pages[client.client_id].page.stream
            until(lambda: stream.settings.output == output, "the choice did not arrive")  # noqa: B023
            at_rest(app, client)
            page.screenshot(path=str(tmp_path / f"{output}.png"))
            assert page.get_by_text("per pixel (log)").count() == (1 if output == "overdraw" else 0)
            assert cut(screenshot(page)).std() > 5
