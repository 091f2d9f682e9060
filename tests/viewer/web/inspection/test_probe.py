"""What the page says about one pixel: the primitives that contribute, their weights, and the surface."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from page_driver import at_rest, ball, canvas_width, click_until, newest_client, until
from shown import ViewerApp, sample

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.raster.rasterize import rasterize
from luxel.viewer.web.panels.inspect import InspectPanel, contributor_rows
from luxel.viewer.web.shading.probe import contributors, surface_normal
from luxel.viewer.web.shading.shading import DisplaySettings, Sample

CAMERA = Camera.look_at((3.5, 0.5, 1.0), (0, 0, 0), fov_y=0.9, width=64, height=48)
PIXELS = ((32, 24), (20, 15), (45, 30), (2, 2))


def test_weights_and_numbers_are_those_of_the_rasterizer(
    crystals: Callable[..., Convexes], carousel: Callable[..., Gaussians4d]
) -> None:
    hit = 0
    for scene in (ball(), crystals(40), carousel()):
        time = 0.3 if scene.moves else None
        frame = rasterize(scene, CAMERA, time=time, count=True)
        assert frame.count is not None
        for column, row in PIXELS:
            hits = contributors(scene, frame, column, row, most=1000)
            assert hits is not None
            count, all_of_them = hits
            assert count == int(frame.count[row, column]) == len(all_of_them)
            assert sum(one.weight for one in all_of_them) == pytest.approx(
                float(frame.alpha[row, column]), abs=2e-4
            )
            hit += count
    assert hit > 50, "the pixels must show something"


def test_the_strongest_is_the_one_whose_colour_is_seen() -> None:
    scene = ball()
    frame = rasterize(scene, CAMERA)
    hits = contributors(scene, frame, 32, 24)
    assert hits is not None
    strongest = hits[1][0]
    marked = torch.zeros(scene.count, 1)
    marked[strongest.index] = 1
    features = rasterize(scene, CAMERA, features=marked).features
    assert features is not None and float(features[24, 32, 0]) == pytest.approx(strongest.weight, abs=1e-4)
    weights = [one.weight for one in hits[1]]
    assert weights == sorted(weights, reverse=True) and len(weights) == 3
    details = dict(strongest.details)
    assert details["opacity"] == f"{float(scene.opacities[strongest.index]):.3g}"
    rgb = (0.5 + SH_C0 * scene.sh_dc[strongest.index]).clamp(0, 1).mul(255).round().int().tolist()
    assert details["base colour"] == "rgb({}, {}, {})".format(*rgb)


def test_without_rows_on_the_screen_it_is_not_available() -> None:
    frame = SimpleNamespace(splats=None, tile_counts=None)
    assert contributors(ball(), frame, 0, 0) is None
    assert contributor_rows(Sample((0, 0, 0), 1.0, 1.0)) == [("Contributors", "not available")]


def test_an_empty_pixel_and_an_empty_scene_have_no_contributors() -> None:
    for scene in (ball(), Gaussians.empty(0)):
        assert contributors(scene, rasterize(scene, CAMERA), 1, 1) == (0, ())


def test_the_normal_of_a_floor_points_up() -> None:
    plane = torch.cartesian_prod(torch.linspace(-3, 3, 60), torch.linspace(-3, 3, 60))
    count = len(plane)
    floor = Gaussians(
        torch.cat([plane, torch.zeros(count, 1)], 1),
        torch.tensor([[1.0, 0, 0, 0]]).repeat(count, 1),
        torch.tensor([[0.08, 0.08, 1e-3]]).log().repeat(count, 1),
        torch.full((count,), 3.0),
        torch.zeros(count, 3),
        torch.zeros(count, 0, 3),
    )
    camera = Camera.look_at((2.5, 0.5, 1.5), (0, 0, 0), fov_y=0.9, width=160, height=120)
    seen = sample(rasterize, floor, camera, DisplaySettings(), 80, 60)
    assert seen.normal is not None and seen.depth is not None
    np.testing.assert_allclose(seen.normal, (0, 0, 1), atol=0.06)
    empty = torch.zeros(120, 160)
    assert surface_normal(empty, empty, camera, 80, 60) is None


@pytest.mark.slow
def test_a_click_names_the_strongest_primitive(
    shown: ViewerApp, open_page: Callable[..., Any], tmp_path: Any
) -> None:
    page = open_page(shown, width=1100, height=900)
    client = newest_client(shown)
    at_rest(shown, client)
    panels = shown._pages[client.client_id].panels
    panel = next(panel for panel in panels if isinstance(panel, InspectPanel))
    page.get_by_role("checkbox", name="Inspect").check()
    until(lambda: panel._numbers.visible, "the switch turned nothing on")
    place = (canvas_width(page) // 2 - 40, 440)
    click_until(page, place, lambda: "of the pixel" in panel._numbers.content, "no click arrived")
    page.get_by_text("% of the pixel").first.wait_for(timeout=60_000)
    page.get_by_text("base colour").scroll_into_view_if_needed()
    page.screenshot(path=str(tmp_path / "inspect.png"))
    camera = shown._pages[client.client_id].page.pose().camera(canvas_width(page), 900)
    hits = contributors(ball(), rasterize(ball(), camera), canvas_width(page) // 2 - 40, 440)
    assert hits is not None and f"#{hits[1][0].index}:" in panel._numbers.content
