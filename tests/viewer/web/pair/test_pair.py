"""Two scenes under one camera: their images, differences, figures, pixels, and what speaks against comparing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_controls import Controls
from page_driver import FakeTrainerRunning, at_rest, ball, newest_client, ring, screenshot, until
from shown import StaticSession, TrainingSession, ViewerApp, draw, outputs_of, redrawn, sample, side_of

from luxel.render.errors import LuxelError
from luxel.render.fields.config import defaults
from luxel.render.fields.volume import VolumeField
from luxel.render.geometry.camera import Camera
from luxel.render.metrics.image_metrics import psnr
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.offline import open_offline_page
from luxel.viewer.web.pair.checks import Bounds, bounds_of, find_problems
from luxel.viewer.web.pair.painter import PairPainter
from luxel.viewer.web.pair.session import PairSession, distinct_names, sides_of
from luxel.viewer.web.panels.compare import ComparePanel
from luxel.viewer.web.panels.edit import EditPanel
from luxel.viewer.web.panels.inspect import click_rows
from luxel.viewer.web.panels.pair import PairPanel
from luxel.viewer.web.panels.statistics import StatisticsPanel
from luxel.viewer.web.shading import shading
from luxel.viewer.web.shading.legend import legend_of, notice_of
from luxel.viewer.web.shading.shading import DisplaySettings

CAMERA = Camera.look_at((3.0, 1.0, 1.0), (0, 0, 0), fov_y=0.9, width=120, height=80)
BODY = slice(0, 60)  # rows above the names


def other_ball() -> Gaussians:
    """Fewer and darker Gaussians than those of the ball, a little larger."""
    scene = ball(180)
    return replace(scene, means=1.1 * scene.means, sh_dc=scene.sh_dc - 0.8)


def pair_of(left: Any, right: Any, views: bool = False, **options: Any) -> PairSession:
    sides = []
    for name, scene in (("first", left), ("second", right)):
        render = None if isinstance(scene, VolumeField) else rasterize
        session = StaticSession(scene, ring() if views else (), name, **options)
        sides.append(side_of(name, session, render))
    return PairSession(*sides)


def paint(painter: PairPainter, **settings: Any) -> tuple[np.ndarray, str]:
    with painter.session.borrow() as scene:
        image, caption = draw(rasterize, scene, CAMERA, DisplaySettings(painter=painter, **settings))
    return image.numpy(), caption


def alone(scene: Any, **settings: Any) -> np.ndarray:
    return draw(rasterize, scene, CAMERA, DisplaySettings(**settings))[0].numpy()


def test_each_side_is_the_image_of_its_scene_and_can_be_swapped() -> None:
    painter = PairPainter(pair_of(ball(), other_ball()))
    left, right = alone(ball()), alone(other_ball())
    painter.split = 0.4
    image, _ = paint(painter)
    assert np.array_equal(image[BODY, :47], left[BODY, :47])
    assert np.array_equal(image[BODY, 49:], right[BODY, 49:])
    assert image[BODY, 47:49].min() == 255, "no line"
    assert (image[60:] != np.concatenate([left[60:, :48], right[60:, 48:]], 1)).any(), "no names"
    painter.swapped = True
    swapped, _ = paint(painter)
    assert np.array_equal(swapped[BODY, :47], right[BODY, :47])
    assert [part.side.name for part in painter.parts] == ["second", "first"]
    assert all(part.ms > 0 for part in painter.parts)


def test_a_scene_of_which_nothing_is_seen_is_not_rendered() -> None:
    drawn: list[int] = []

    def render(scene: Any, camera: Camera, **options: Any) -> Any:
        drawn.append(scene.count)
        return rasterize(scene, camera, **options)

    session = pair_of(ball(), other_ball())
    left, right = (replace(side, session=redrawn(side.session, render)) for side in session.sides)
    painter = PairPainter(PairSession(left, right))
    for split, counts in ((0.0, [180]), (1.0, [250]), (0.5, [250, 180])):
        painter.split = split
        drawn.clear()
        image, _ = paint(painter)
        assert drawn == counts
        if split == 0.0:
            assert np.array_equal(image[BODY], alone(other_ball())[BODY]), "a line at the border"
    painter.difference, painter.split = True, 0.0
    drawn.clear()
    paint(painter)
    assert drawn == [250, 180]


@pytest.mark.parametrize("output", [*outputs_of(Gaussians), "seen by"])
def test_every_output_is_drawn_side_by_side_and_as_a_difference(output: str) -> None:
    painter = PairPainter(pair_of(ball(), other_ball(), views=True))
    settings: dict[str, Any] = {"output": output}
    if output == "seen by":
        settings["seen"] = painter._settings(painter.sides[0], DisplaySettings()).seen
    image, caption = paint(painter, **settings)
    assert image.shape == (80, 120, 3) and image[BODY, :58].std() > 4 and image[BODY, 62:].std() > 4
    painter.difference = True
    _, caption = paint(painter, **settings)
    assert legend_of(caption) is not None and caption.startswith("second minus first")


def test_false_colours_have_one_scale() -> None:
    near, far = ball(), replace(ball(), means=ball().means * 0.2 - torch.tensor([3.0, 1.0, 1.0]))
    painter = PairPainter(pair_of(near, far))
    for output in ("depth", "count"):
        image, _ = paint(painter, output=output)
        assert not np.array_equal(image[BODY, 62:], alone(far, output=output)[BODY, 62:]), (
            "the right half has a scale of its own"
        )
    painter.split = 1.0
    assert legend_of(paint(painter, output="depth")[1]) == legend_of(
        draw(rasterize, near, CAMERA, DisplaySettings(output="depth"))[1]
    )


def test_the_difference_is_zero_of_equal_scenes_and_has_the_psnr_of_others() -> None:
    painter = PairPainter(pair_of(ball(), ball()))
    painter.difference = True
    image, caption = paint(painter)
    assert np.unique(image[BODY].reshape(-1, 3), axis=0).shape[0] == 1 and "PSNR inf" in caption
    painter = PairPainter(pair_of(ball(), other_ball()))
    painter.difference = True
    image, caption = paint(painter)
    frames = [rasterize(scene, CAMERA).rgb.clamp(0, 1) for scene in (ball(), other_ball())]
    assert caption == f"second minus first: PSNR {psnr(frames[0], frames[1]):.2f} dB"
    painter.scale = 1.0
    assert paint(painter)[0][BODY].mean() < image[BODY].mean()


def test_a_scene_without_the_output_or_without_anything_says_so() -> None:
    field = VolumeField(replace(defaults("volume"), log2_entries=10)).detach()
    painter = PairPainter(pair_of(ball(), field))
    image, caption = paint(painter)
    of_field, _ = draw(None, field, CAMERA, DisplaySettings())
    assert np.array_equal(image[BODY, 62:], of_field.numpy()[BODY, 62:]) and caption == ""
    image, _ = paint(painter, output="depth")
    assert "no output 'depth'" in painter.parts[1].message
    assert np.array_equal(image[:20, :58], alone(ball(), output="depth")[:20, :58])
    painter.difference = True
    with pytest.raises(LuxelError, match=r"no difference of 'depth'.*second"):
        paint(painter, output="depth")
    one = PairPainter(pair_of(ball(), field))
    one.split = 0.0  # the ball, which has the output, is outside of the image
    with pytest.raises(LuxelError, match="no output 'depth'"):
        paint(one, output="depth")
    fields = PairPainter(pair_of(field, field))
    with pytest.raises(LuxelError, match=r"no output 'depth'.*Choose one of these"):
        paint(fields, output="depth")
    empty = PairPainter(pair_of(ball(), Gaussians.empty(0)))
    image, caption = paint(empty)
    assert "no Gaussians" in empty.parts[1].message and notice_of(caption) == ""
    both = PairPainter(pair_of(Gaussians.empty(0), Gaussians.empty(0)))
    assert "no Gaussians" in notice_of(paint(both)[1])


def test_primitives_mix_and_each_scene_is_antialiased_as_it_was_trained(
    crystals: Callable[..., Convexes], carousel: Callable[..., Gaussians4d]
) -> None:
    painter = PairPainter(pair_of(crystals(12), carousel()))
    assert painter.session.times == pytest.approx((0.0, 1.0), abs=0.3), "the times of the one that moves"
    image, _ = paint(painter, time=0.5)
    assert image[BODY, :58].std() > 2 and image[BODY, 62:].std() > 2
    plain, compensated = ball(), StaticSession(ball(), antialiased=True)
    session = PairSession(
        side_of("first", StaticSession(plain), rasterize), side_of("second", compensated, rasterize)
    )
    painter = PairPainter(session)
    image, _ = paint(painter)
    assert np.array_equal(image[BODY, 62:], alone(plain, antialiased=True)[BODY, 62:])
    assert np.array_equal(image[BODY, :58], alone(plain)[BODY, :58])
    both, _ = paint(painter, antialiased=True)
    assert np.array_equal(both[BODY, :58], alone(plain, antialiased=True)[BODY, :58])


def test_a_pixel_is_that_of_its_side_and_names_the_other() -> None:
    painter = PairPainter(pair_of(ball(), other_ball()))
    settings = DisplaySettings(painter=painter, output="depth")
    with painter.session.borrow() as scene:
        left = sample(rasterize, scene, CAMERA, settings, 50, 40)
        right = sample(rasterize, scene, CAMERA, settings, 70, 40)
    assert (left.name, left.others[0].name) == ("first", "second")
    assert (right.name, right.others[0].name) == ("second", "first")
    own = sample(rasterize, ball(), CAMERA, DisplaySettings(), 50, 40)
    assert left.depth == own.depth and left.strongest == own.strongest
    assert right.others[0].depth == sample(rasterize, ball(), CAMERA, DisplaySettings(), 70, 40).depth


def test_what_speaks_against_one_coordinate_system() -> None:
    here, there = bounds_of(ball().means), bounds_of(ball().means + 10)
    assert here is not None and there is not None and bounds_of(torch.zeros(0, 3)) is None
    assert bounds_of(torch.full((3, 3), torch.nan)) is None
    up, tilted = np.array([0.0, 0, 1]), np.array([0.0, 1, 0])
    assert find_problems(("a", here, up), ("b", here, up)) == []
    assert find_problems(("a", here, up), ("b", None, None)) == []
    apart = find_problems(("a", here, None), ("b", there, None))
    assert len(apart) == 1 and "do not overlap" in apart[0]
    large = Bounds(here.low * 100, here.high * 100)
    assert "b is 100 times as large as a" in find_problems(("a", here, up), ("b", large, up))[0]
    assert "differ by 90 degrees" in find_problems(("a", here, up), ("b", here, tilted))[0]


def test_names_tell_two_scenes_apart(tmp_path: Path) -> None:
    for name in ("x/scene.ply", "y/scene.ply", "one.ply", "one.splat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "runs" / "first").mkdir(parents=True)
    at = tmp_path.__truediv__
    assert distinct_names(at("one.ply"), at("x/scene.ply")) == ("one", "scene")
    assert distinct_names(at("x/scene.ply"), at("y/scene.ply")) == ("x/scene.ply", "y/scene.ply")
    assert distinct_names(at("one.ply"), at("one.splat")) == ("one.ply", "one.splat")
    assert distinct_names(at("runs/first"), at("one.ply")) == ("first", "one.ply")


def test_a_training_beside_a_finished_scene() -> None:
    with FakeTrainerRunning() as trainer:
        run = TrainingSession(trainer, ring(), "run")
        finished = side_of("finished", StaticSession(other_ball()), rasterize)
        session = PairSession(finished, side_of("run", run, rasterize), main=1)
        assert session.trains and session.trainer is trainer and not session.paused
        session.share_of_time = 0.5
        with session.borrow():
            assert run.share_of_time == 0.5
        version = session.version
        until(lambda: session.version > version, "the version does not follow the training")
        painter = PairPainter(session)
        image, _ = paint(painter)
        assert np.array_equal(image[BODY, :58], alone(other_ball())[BODY, :58])
        assert np.array_equal(image[BODY, 62:], alone(ball())[BODY, 62:])
        session.pause()
        assert trainer.paused
        session.resume()
        assert not trainer.paused


@contextmanager
def offline(session: PairSession) -> Iterator[tuple[Any, dict[type, Any]]]:
    with ViewerApp(session, port=0) as app:
        opened = open_offline_page(app, Pose.of_camera(CAMERA), width=120, height=80)
        yield opened, {type(panel): panel for panel in opened.panels}


def test_the_panels_of_a_page_with_two_scenes() -> None:
    with offline(pair_of(ball(), other_ball(), views=True)) as (opened, panels):
        stream, panel = opened.page.stream, panels[PairPanel]
        assert EditPanel not in panels, "edits are for one scene"
        until(lambda: "180" in panel._numbers.content and "ms" in panel._numbers.content, "no figures")
        assert [name for name, _ in sides_of(opened.page.session)] == ["first", "second"]
        compare = panels[ComparePanel]
        pair = stream.settings.painter
        compare._on.value = True
        compare._switch(True)
        assert stream.settings.painter is compare._comparer and compare._comparer.under is pair
        compare._on.value = False
        compare._switch(False)
        assert stream.settings.painter is pair, "the two scenes are gone"
        panels[StatisticsPanel].refresh()
        drawings = panels[StatisticsPanel]._drawings.content
        assert drawings.count(">Opacity<") == 2 and drawings.index("first") < drawings.index("second")
        clicks: list[Any] = []
        opened.page.listen(clicks.append, True)
        opened.page.click(0.25, 0.5)
        rows = click_rows(clicks[0])
        assert [text for label, text in rows if label == "Scene"] == ["first", "second"]
        assert sum(label == "Contributors" for label, _ in rows) == 2


def test_the_camera_is_fitted_to_either_scene_of_two_that_do_not_overlap() -> None:
    away = replace(ball(), means=ball().means + torch.tensor([40.0, 0, 0]))
    with offline(pair_of(ball(), away)) as (opened, panels):
        panel = panels[PairPanel]
        assert panel._notice.visible and "overlap" in panel._notice.content
        panel._fit_camera(panel._painter.sides[1])
        assert abs(opened.page.pose().position[0] - 40) < 15
        np.testing.assert_allclose(opened.page.extent.centre, [40, 0, 0], atol=0.3)
        panel._fit_camera(panel._painter.sides[0])
        assert abs(opened.page.pose().position[0]) < 15


@pytest.mark.slow
def test_two_scenes_in_a_browser(open_page: Callable[..., Any], tmp_path: Any) -> None:
    session = pair_of(ball(3000), other_ball(), views=True, background=(0.1, 0.1, 0.12))
    with ViewerApp(session, port=0) as app:
        page = open_page(app, width=1280, height=900)
        client = newest_client(app)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "pair.png"))
        before = screenshot(page)
        panels = app._pages[client.client_id].panels
        panel = next(panel for panel in panels if isinstance(panel, PairPanel))
        controls = Controls(page, app)
        controls.press("Two scenes/Swap sides")
        at_rest(app, client)
        until(lambda: panel._painter.swapped and "Left" in panel._shown, "the sides are not swapped")
        until(lambda: np.abs(screenshot(page) - before)[:, :600].mean() > 3, "the sides look as before")
        at_rest(app, client)
        swapped = screenshot(page)
        controls.set("Two scenes/Line", 90)
        until(lambda: panel._painter.split == 0.9, "the line did not arrive")
        until(lambda: np.abs(screenshot(page) - swapped)[:, 480:850].mean() > 3, "the line did not move")
        at_rest(app, client)
        beside = screenshot(page)
        controls.set("Two scenes/Image", "difference")
        page.get_by_text("absolute difference").first.wait_for(timeout=60_000)
        at_rest(app, client)
        faint = screenshot(page)
        controls.set("Two scenes/Error scale", 0.05)
        until(lambda: panel._painter.scale == 0.05, "the scale did not arrive")
        level = faint[:, :850].mean() + 3
        until(lambda: screenshot(page)[:, :850].mean() > level, "no brighter differences")
        controls.set("Two scenes/Image", "side by side")
        until(lambda: np.abs(screenshot(page) - beside)[100:, :850].mean() < 1, "another image than before")
        for button, side in (("Two scenes/Right scene", 1), ("Two scenes/Left scene", 0)):
            controls.press(button)
            extent = panel._painter.sides[side].extent
            until(lambda extent=extent: controls.opened.page.extent is extent, "no flight to the scene")
        controls.set("Two scenes/Image", "difference")
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "difference.png"))
        page.get_by_label("Output").click()
        page.get_by_role("option", name="depth").click()
        page.get_by_text("capture units farther").first.wait_for(timeout=60_000)
        at_rest(app, client)
        page.screenshot(path=str(tmp_path / "depth.png"))


def test_outputs_of_a_pair_with_training_cameras() -> None:
    session = pair_of(ball(), other_ball(), views=True)
    assert "seen by" in shading.outputs_of(session.about, session.primitives, len(session.training_views) > 0)


def test_a_pair_has_no_private_names_of_its_sides() -> None:
    pair = pair_of(ball(20), ball(30))
    with pytest.raises(AttributeError, match="PairSession has no attribute _scene"):
        _ = pair._scene
