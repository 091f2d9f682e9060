"""Checks of captures: faults that were put into a made-up place and a made-up object are found, and nothing else is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from viser.transforms import SO3

import luxel.scenes as scenes
from luxel.render.geometry.camera import Pixels, View
from luxel.scenes.captures.checks import CHECKS, Finding, inspect
from luxel.scenes.captures.checks.finding import named
from luxel.scenes.captures.open_capture import Capture
from luxel.scenes.synthetic import write_courtyard
from luxel.scenes.synthetic.captures.dnerf import default_camera_samples, save_dnerf
from luxel.scenes.synthetic.example_scenes import static_scene

FAULTY = 11  # row of the view that is changed, as `Capture.views` has them


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """A courtyard, opaque photographs."""
    folder = tmp_path_factory.mktemp("place")
    write_courtyard(folder, views=48, width=210, height=140, points=6000, device="cpu")
    return scenes.open(folder)


@pytest.fixture(scope="module")
def solids(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Solids on a platform, cut out, from cameras around them."""
    folder = tmp_path_factory.mktemp("solids")
    samples = default_camera_samples(60, 0, 0, static=True, width=128, height=128)
    save_dnerf(static_scene(0, 10), folder, samples)
    return scenes.open(folder)


def with_pixels(capture: Capture, row: int, **changes: np.ndarray) -> Capture:
    """The capture with other pixels in a view."""
    view = capture.views[row]
    pixels = replace(view.read(), **changes)
    return with_view(capture, replace(view, read=lambda: pixels))


def with_view(capture: Capture, changed: View) -> Capture:
    """The capture with a view in place of that of its name."""

    def put(views: list[View]) -> list[View]:
        return [changed if view.name == changed.name else view for view in views]

    return replace(capture, train=put(capture.train), test=put(capture.test))


def findings_of(capture: Capture) -> list[Finding]:
    return inspect(capture).findings


def only(capture: Capture, check: str) -> Finding:
    """The one finding, which must be of this check."""
    findings = findings_of(capture)
    assert [finding.check for finding in findings] == [check], findings
    assert findings[0].remedy and findings[0].problem.endswith(".")
    assert len(findings[0].views) == len(findings[0].values)
    return findings[0]


def test_nothing_is_found_where_nothing_is_wrong(place: Capture, solids: Capture) -> None:
    assert findings_of(place) == [] and findings_of(solids) == []


def test_blurred_photograph(place: Capture) -> None:
    view = place.views[FAULTY]
    blurred = cv2.GaussianBlur(view.read().rgb, (0, 0), 3)
    finding = only(with_pixels(place, FAULTY, rgb=blurred), "sharpness")
    assert finding.views == (view.name,) and finding.values[0] < 0.3


@pytest.mark.parametrize("factor", [0.6, 1.5])
def test_jump_of_the_exposure(place: Capture, factor: float) -> None:
    view = place.views[FAULTY]
    rgb = np.clip(factor * view.read().rgb.astype(float), 0, 255).astype(np.uint8)
    finding = only(with_pixels(place, FAULTY, rgb=rgb), "exposure")
    assert finding.views == (view.name,) and np.sign(finding.values[0]) == np.sign(math.log(factor))


def test_exposure_that_varies_everywhere(place: Capture) -> None:
    factors = np.random.default_rng(0).uniform(0.5, 1.0, len(place.views))
    capture = place
    for row, factor in enumerate(factors):
        capture = with_pixels(capture, row, rgb=(factor * capture.views[row].read().rgb).astype(np.uint8))
    assert "varies by" in next(f for f in findings_of(capture) if f.check == "exposure").problem


@pytest.mark.parametrize("degrees", [5.0, 10.0])
def test_wrong_pose(place: Capture, degrees: float) -> None:
    view = place.views[20]
    turn = torch.eye(4)
    turn[:3, :3] = torch.tensor(SO3.exp(math.radians(degrees) * np.array([0.7, 0.7, 0.0])).as_matrix())
    camera = replace(view.camera, world_to_cam=turn @ view.camera.world_to_cam)
    finding = only(with_view(place, replace(view, camera=camera)), "poses")
    assert finding.views == (view.name,)


def test_duplicate(place: Capture) -> None:
    first, second = place.views[FAULTY], place.views[FAULTY + 1]
    noisy = first.read().rgb.astype(int) + np.random.default_rng(0).integers(-2, 3, first.read().rgb.shape)
    pixels = Pixels(np.clip(noisy, 0, 255).astype(np.uint8))
    twin = replace(second, camera=first.camera, read=lambda: pixels)
    assert only(with_view(place, twin), "duplicates").views == (second.name,)
    later = replace(twin, time=1.0)
    assert findings_of(with_view(place, later)) == [], "another time of a scene that does not move"


def test_side_that_nobody_photographed(solids: Capture) -> None:
    away = np.stack([v.camera.cam_to_world[:3, 3].double().numpy() for v in solids.views]) - solids.centre
    angles = np.degrees(np.arctan2(away[:, 1], away[:, 0])) % 360
    kept = [view for view, angle in zip(solids.views, angles, strict=True) if not 80 < angle < 170]
    finding = only(replace(solids, train=kept, test=[]), "coverage")
    assert len(finding.views) == 2 and 85 < finding.values[0] < 130
    half = [view for view, angle in zip(solids.views, angles, strict=True) if angle < 150]
    assert findings_of(replace(solids, train=half, test=[])) == [], "no round was meant"


def test_mask_with_a_hole(solids: Capture) -> None:
    view = solids.views[FAULTY]
    alpha = view.read().alpha
    assert alpha is not None
    rows, columns = np.nonzero(alpha)
    hole = alpha.copy()
    cv2.circle(hole, (int(columns.mean()), int(rows.mean())), 16, 0, -1)
    finding = only(with_pixels(solids, FAULTY, alpha=hole), "masks")
    assert finding.views == (view.name,)


def test_few_views_and_no_points_are_no_reason_to_fail(place: Capture) -> None:
    few = replace(place, train=place.train[:3], test=[])
    assert [f.check for f in findings_of(few)] in ([], ["coverage"])
    nothing = replace(place, points=replace(place.points, xyz=place.points.xyz[:0], rgb=place.points.rgb[:0]))
    assert findings_of(nothing) == []


def test_names_are_shortened() -> None:
    assert named(tuple("abcdefghijk")) == "a, b, c, d, e, f, g, h and 3 more"
    assert list(CHECKS) == ["poses", "sharpness", "exposure", "duplicates", "coverage", "masks", "depth"]


def test_tankard_has_two_masks_with_a_hole(shared: Path) -> None:
    finding = only(scenes.open(shared / "captures/tankard-tiny"), "masks")
    assert finding.views == ("IMG_9733.jpg", "IMG_9683.jpg")
