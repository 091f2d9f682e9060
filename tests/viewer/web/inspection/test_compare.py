"""Image against render: where the comparison is drawn, its errors and PSNR, and its panel in a browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, newest_client, ring, screenshot, until
from shown import StaticSession, ViewerApp, draw, measure_scores, sample, scene_of

from luxel.render.fields.config import defaults
from luxel.render.fields.volume import VolumeField
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.inspection.comparison import (
    Compared,
    Comparer,
    difference_image,
    fitted,
    luminance_image,
    split_image,
    squared_image,
)
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.panels.compare import ComparePanel
from luxel.viewer.web.panels.inspect import contributor_rows
from luxel.viewer.web.shading.legend import SIGNED, legend_of
from luxel.viewer.web.shading.shading import DisplaySettings


def photographed(darker: float = 0.8) -> list[View]:
    """Views of the ball whose photographs are darker renders of it; names that a careless page takes for HTML."""
    views = []
    for view in ring():
        image = rasterize(ball(), view.camera).rgb.clamp(0, 1) * darker
        pixels = Pixels((image * 255).round().byte().numpy())
        views.append(replace(view, read=lambda pixels=pixels: pixels))
    return views


def paint(comparer: Comparer, camera: Camera) -> tuple[np.ndarray, str]:
    """What a page draws, once the photograph is read."""
    settings = DisplaySettings(painter=comparer)
    draw(rasterize, ball(), camera, settings)
    until(
        lambda: comparer.paint(scene_of(ball()), camera, settings) is not None, "the photograph is not read"
    )
    image, caption = draw(rasterize, ball(), camera, settings)
    return image.numpy(), caption


def test_comparison_is_drawn_only_at_a_view_and_has_the_psnr_of_the_evaluation() -> None:
    views, changes = photographed(), []
    comparer = Comparer(StaticSession(ball(), views), 3.5, lambda: changes.append(1))
    camera = Pose.of_camera(views[1].camera, 2.0).camera(200, 100)
    image, caption = paint(comparer, camera)
    assert image.shape == (100, 200, 3) and len(changes) == 1
    expected = evaluate(ball(), views[1:2], lpips=False).mean.psnr
    assert caption == f"{views[1].name}: PSNR {expected:.2f} dB"
    left, right = image[40:60, 75:98].astype(float).mean(), image[40:60, 102:125].astype(float).mean()
    assert left < 0.9 * right, "the darker photograph is on the left"
    elsewhere = Pose.of_camera(Camera.look_at((3.0, 2.0, 1.0), (0, 0, 0))).camera(60, 40)
    plain, caption = draw(rasterize, ball(), elsewhere, DisplaySettings(painter=comparer))
    assert caption == "" and np.array_equal(plain, draw(rasterize, ball(), elsewhere, DisplaySettings())[0])


def test_a_photograph_that_cannot_be_read_is_a_message() -> None:
    def fail() -> Pixels:
        raise OSError("no such file")

    views = [replace(view, read=fail) for view in ring()]
    comparer = Comparer(StaticSession(ball(), views), 3.5, lambda: None)
    camera = views[0].camera
    draw(rasterize, ball(), camera, DisplaySettings(painter=comparer))
    until(lambda: bool(comparer.problem(views[0].name)), "no message")
    assert "no such file" in comparer.problem(views[0].name)
    assert draw(rasterize, ball(), camera, DisplaySettings(painter=comparer))[1] == ""


def test_the_render_is_kept_until_scene_or_appearance_change() -> None:
    drawn: list[Camera] = []

    def render(scene: Any, camera: Camera, **options: Any) -> Any:
        drawn.append(camera)
        return rasterize(scene, camera, **options)

    views = photographed()
    session = StaticSession(ball(), views)
    comparer = Comparer(session, 3.5, lambda: None)
    camera = views[0].camera.resized(40, 40)
    paint(comparer, camera)
    settings = DisplaySettings(painter=comparer)
    comparer.split = 0.2
    draw(render, ball(), camera, settings)
    assert not drawn, "moving the split must not render"
    draw(render, ball(), camera, replace(settings, background=(1.0, 1.0, 1.0)))
    session.show(ball(100))
    draw(render, ball(100), camera, settings)
    assert [camera.width for camera in drawn] == [80, 80], "in the image's pixels"
    comparer.release()
    assert comparer._compared is None
    assert paint(comparer, camera)[1].startswith(views[0].name), "it is made again"


def test_errors_have_their_sign_and_scale() -> None:
    truth = torch.full((2, 4, 3), 0.5)
    render = truth.clone()
    render[:, 0] += 0.2
    render[:, 1] -= 0.2
    compared = Compared("v", truth, render, 20.0)
    signed, bar = luminance_image(compared, 0.5, 0.2)
    assert bar is not None and bar.high.startswith("+0.2")
    torch.testing.assert_close(signed[0, 0], torch.tensor(SIGNED[-1] / 255))
    torch.testing.assert_close(signed[0, 1], torch.tensor(SIGNED[0] / 255))
    torch.testing.assert_close(signed[0, 2], torch.tensor(SIGNED[2] / 255))
    absolute, _ = difference_image(compared, 0.5, 0.4)
    torch.testing.assert_close(absolute[0, 0], absolute[0, 1])
    assert absolute[0, 0].sum() > absolute[0, 2].sum()
    _, bar = squared_image(compared, 0.5, 0.2)
    assert bar is not None and bar.high == "0.04 squared error"
    split, bar = split_image(compared, 0.0, 0.2)
    assert bar is None and torch.equal(split, render)
    assert torch.equal(split_image(compared, 1.0, 0.2)[0], truth)


def test_an_image_is_fitted_whole_and_centred() -> None:
    image = torch.ones(10, 20, 3)
    wide = fitted(image, 60, 10)
    assert (
        wide.shape == (10, 60, 3) and bool((wide[:, 20:40] == 1).all()) and bool((wide[:, :20] < 0.5).all())
    )
    tall = fitted(image, 20, 40)
    assert bool((tall[15:25] == 1).all()) and bool((tall[:15] < 0.5).all())


def test_neural_fields_are_compared_measured_and_sampled() -> None:
    field = VolumeField(replace(defaults("volume"), log2_entries=10)).detach()
    views = photographed()[:2]
    session = StaticSession(field, views)
    comparer = Comparer(session, 3.5, lambda: None)
    camera, settings = views[0].camera, DisplaySettings()
    draw(None, field, camera, replace(settings, painter=comparer))
    until(
        lambda: comparer.paint(scene_of(field), camera, settings) is not None,
        "the photograph is not read",
    )
    _, caption = draw(None, field, camera, replace(settings, painter=comparer))
    measured: dict[str, float] = {}
    measure_scores(session, None, settings, measured.__setitem__, lambda: False)
    assert caption == f"{views[0].name}: PSNR {measured[views[0].name]:.2f} dB" and len(measured) == 2
    seen = sample(None, field, camera, settings, 40, 40)
    assert seen.count is None and contributor_rows(seen) == [("Contributors", "not available")]


@pytest.mark.slow
def test_compare_panel_in_a_browser(open_page: Callable[..., Any], tmp_path: Any) -> None:
    with ViewerApp(StaticSession(ball(), photographed(), "ball"), port=0) as app:
        page = open_page(app, height=900)
        client = newest_client(app)
        at_rest(app, client)
        panels = app._pages[client.client_id].panels
        panel = next(panel for panel in panels if isinstance(panel, ComparePanel))
        page.get_by_text("Compare", exact=True).first.click()
        page.get_by_role("checkbox", name="Compare").check()
        page.get_by_text("dB", exact=False).first.wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "split.png"))
        before = screenshot(page)
        page.get_by_role("button", name="Next").last.click()
        until(lambda: "photo_1" in panel._shown and "dB" in panel._shown, "the next view is not compared")
        page.get_by_label("Image", exact=True).click()
        page.get_by_role("option", name="luminance error").click()
        page.get_by_text("too bright").first.wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "luminance.png"))
        assert np.abs(screenshot(page) - before).mean() > 3
        page.mouse.move(300, 300)
        page.mouse.down()
        page.mouse.move(360, 320, steps=4)
        page.mouse.up()
        page.get_by_text("stands at no view").wait_for(timeout=60_000)
        assert legend_of(app._pages[client.client_id].page.stream._state.caption) is None
