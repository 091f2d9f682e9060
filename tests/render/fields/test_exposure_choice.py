"""Whether exposures are learnt, as made images of constant and of changing exposure say; objects found by points."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_extent import points_of_place, walk
from test_radiance import CONFIG, SmallRadianceField

from luxel.render.fields.capture.exposure_choice import MIN_VIEWS, brightness_change, exposure_of
from luxel.render.fields.capture.extent import is_object
from luxel.render.fields.capture.posed_images import DeviceImages, PosedImages
from luxel.render.fields.radiance import RadianceField
from luxel.render.fields.radiance_config import RadianceConfig
from luxel.render.geometry.camera import Camera, Pixels, Points, View

CPU = torch.device("cpu")


def turned(change: float, count: int = 20, *, opaque: bool = False, size: int = 12) -> list[View]:
    """A grey object, brighter from one side, whose images are exposed at random by this much (natural logarithm)."""
    random = np.random.default_rng(7)
    views = []
    for k in range(count):
        angle = 2 * math.pi * k / count
        camera = Camera.look_at(
            (4 * math.cos(angle), 4 * math.sin(angle), 1.0), (0, 0, 0), width=size, height=size
        )
        level = 120 * (1 + 0.3 * math.cos(angle)) * math.exp(random.uniform(-change, change))
        rgb = np.zeros((size, size, 3), np.uint8)
        rgb[1:-1, 1:-1] = round(level)
        alpha = (255 * (rgb[..., 0] > 0)).astype(np.uint8)
        pixels = Pixels(rgb, None if opaque else alpha)
        views.append(View(f"{k}", camera, lambda pixels=pixels: pixels))
    return views


@pytest.mark.parametrize("opaque", [False, True])
def test_changing_exposures_are_found_and_shading_is_none(opaque: bool) -> None:
    changes = [
        brightness_change(DeviceImages.read(turned(c, opaque=opaque), CPU)) for c in (0.0, 0.02, 0.15, 0.3)
    ]
    assert changes == sorted(changes) and changes[1] < 0.03 < changes[2]
    assert exposure_of(DeviceImages.read(turned(0.3, opaque=opaque), CPU)) == "affine"
    assert exposure_of(DeviceImages.read(turned(0.0, opaque=opaque), CPU)) == "none"


def test_few_views_say_nothing() -> None:
    assert brightness_change(DeviceImages.read(turned(0.5, MIN_VIEWS - 1), CPU)) == 0.0


def test_views_without_an_opaque_pixel_count_as_dark() -> None:
    views = turned(0.0)
    clear = Pixels(views[0].read().rgb, np.zeros((12, 12), np.uint8))
    views[0] = replace(views[0], read=lambda: clear)
    assert math.isfinite(brightness_change(DeviceImages.read(views, CPU)))


@pytest.mark.parametrize(("change", "expected"), [(0.3, "affine"), (0.0, "none")])
def test_the_configuration_says_what_was_chosen(change: float, expected: str) -> None:
    field = SmallRadianceField(replace(CONFIG, exposure="auto"))
    field.begin(turned(change), CPU)
    assert field.config.exposure == expected and (field.rays.exposure is not None) == (expected == "affine")
    assert list(field.auxiliary_parameters()) == (["exposure"] if expected == "affine" else [])


def test_full_scenes_and_given_models_stay() -> None:
    for change, config, expected in (
        (0.3, replace(CONFIG, exposure="none"), "none"),
        (0.0, replace(CONFIG, exposure="gain"), "gain"),
        (0.3, replace(CONFIG, extent="cascades", growth=None, sky=None, exposure="auto"), "none"),
    ):
        field = SmallRadianceField(config)
        field.begin(turned(change), CPU)
        assert field.config.exposure == expected


def near_points(reach: float) -> Points:
    """Points in a cube of this half side."""
    xyz = np.random.default_rng(2).uniform(-reach, reach, (400, 3)).astype(np.float32)
    return Points(xyz, np.zeros((400, 3), np.uint8))


def test_an_object_is_what_all_cameras_are_far_outside_of() -> None:
    views = turned(0.0, opaque=True)
    assert is_object(views, near_points(0.5)) and not is_object(views, near_points(3.0))
    assert not is_object(views, None) and not is_object(walk(4, 8), points_of_place())
    few_far = near_points(0.5)
    few_far.xyz[:1] *= 50
    assert is_object(views, few_far)


def test_images_of_an_object_without_alpha_are_in_a_box() -> None:
    config = replace(CONFIG, extent="auto", finest=None, growth=None)
    data = PosedImages(turned(0.0, opaque=True), points=near_points(0.5))
    chosen = RadianceField.adapt_config(config, data)
    assert isinstance(chosen, RadianceConfig) and (chosen.extent, chosen.finest) == ("box", 2048)
    for options in ({"cascades": 2}, {"growth": 0.01}, {"sky": True}):  # of a full scene
        chosen = RadianceField.adapt_config(replace(config, **options), data)
        assert isinstance(chosen, RadianceConfig) and chosen.extent == "cascades"
    field = SmallRadianceField(replace(CONFIG, exposure="none"))
    field.begin(data, CPU)
    assert max(abs(side) for side in field.region.box) < 0.6 and field.march.occupancy.observed is None
