"""Points behind the scene: on rays of pixels that no point is near, outside of the ball around cameras and points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Pixels, Points, View
from luxel.render.geometry.lens import project_points, radial_lens
from luxel.render.primitives.training import Init
from luxel.render.train.background_points import BEYOND, CELLS, LITTLE, background_points, empty_cells
from luxel.render.train.config import TrainConfig
from luxel.render.train.start import FEWEST_BEHIND, first_primitives

WIDTH, HEIGHT = 96, 48
AROUND = 4.0  # distance of the cameras from the middle


def ring(number: int = 8, pixels: dict[str, np.ndarray] | None = None) -> list[View]:
    """Cameras around the origin, each with an image whose colours are column, row and number of the view."""
    views = []
    for i in range(number):
        angle = 2 * math.pi * i / number
        eye = AROUND * math.cos(angle), AROUND * math.sin(angle), 0.5
        camera = Camera.look_at(eye, (0, 0, 0), fov_y=math.radians(30), width=WIDTH, height=HEIGHT)
        rgb = np.stack(np.broadcast_arrays(np.arange(WIDTH)[None], np.arange(HEIGHT)[:, None], i), -1)
        image = Pixels(rgb.astype(np.uint8), **(pixels or {}))
        views.append(View(f"{i}.png", camera, lambda image=image: image))
    return views


def ball_of_points(number: int = 400, radius: float = 0.3) -> Points:
    random = np.random.default_rng(0)
    xyz = random.normal(size=(number, 3))
    xyz *= radius / np.linalg.norm(xyz, axis=1, keepdims=True)
    return Points(xyz.astype(np.float32), np.full((number, 3), 200, np.uint8))


def test_cells_are_empty_where_neither_they_nor_those_around_them_show_a_point() -> None:
    camera = ring()[0].camera
    columns, rows = CELLS, CELLS * HEIGHT // WIDTH
    assert len(empty_cells(camera, torch.zeros(0, 3))) == columns * rows
    middle = empty_cells(camera, torch.zeros(1, 3))  # at the corner of four cells, of which it is in the last
    gone = {(x, y) for x in range(columns) for y in range(rows)} - {(x, y) for x, y in middle.tolist()}
    assert gone == {(x, y) for x in (11, 12, 13) for y in (5, 6, 7)}
    unseen = torch.tensor([[2 * AROUND, 0.0, 1.0]])
    assert len(empty_cells(camera, unseen)) == columns * rows


def test_points_lie_behind_the_scene_and_have_the_colours_of_their_pixels() -> None:
    views, points = ring(), ball_of_points()
    behind = background_points(points, views, 300, seed=3)
    assert behind.xyz.shape == behind.rgb.shape == (300, 3)
    assert (behind.xyz.dtype, behind.rgb.dtype) == (np.float32, np.uint8)
    centre = np.mean([view.camera.position.numpy() for view in views], axis=0)
    away = np.linalg.norm(behind.xyz - centre, axis=1)
    assert away.min() > AROUND - 1e-4 and BEYOND < away.max() / AROUND < 2 * BEYOND + 1
    for i, view in enumerate(views):
        own = behind.rgb[:, 2] == i
        pixels, _, visible = project_points(view.camera, torch.from_numpy(behind.xyz[own]))
        assert own.sum() > 20 and visible.all()
        expected = torch.from_numpy(behind.rgb[own, :2]).float() + 0.5
        assert (pixels - expected).abs().max() < 0.502
        nearest = torch.cdist(pixels, project_points(view.camera, torch.from_numpy(points.xyz))[0]).amin(1)
        assert nearest.min() > WIDTH / CELLS


def test_inverse_distances_are_uniform() -> None:
    view = ring()[:1]  # a ball of radius 4.07 around the camera itself, through the farthest points
    behind = background_points(ball_of_points(4000), view, 10**6, seed=0)
    camera = view[0].camera.position.numpy()
    inverse = 1 / np.linalg.norm(behind.xyz - camera, axis=1)
    share = (inverse / inverse.max() - 1 / BEYOND) / (1 - 1 / BEYOND)
    assert share.min() > -0.01 and abs(np.median(share) - 0.5) < 0.1


def test_the_seed_decides() -> None:
    first, again, other = (background_points(ball_of_points(), ring(), 50, seed).xyz for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_pixels_of_the_colour_behind_the_scene_need_none() -> None:
    views = ring()
    for grey in (0, 255):
        for view in views:
            plain = np.full((HEIGHT, WIDTH, 3), grey, np.uint8)
            plain[:, : WIDTH // 2] += 5 if grey == 0 else 0
            view.read = lambda rgb=plain: Pixels(rgb)
        colours = background_points(ball_of_points(), views, 100, seed=0, behind=grey).rgb
        assert (30 < len(colours) < 70 and colours.min() == 5) if grey == 0 else len(colours) == 0
        assert len(background_points(ball_of_points(), views, 100, seed=0).rgb) == 100


@pytest.mark.parametrize(
    "pixels",
    [
        {"weight": np.zeros((HEIGHT, WIDTH), np.uint8)},
        {"alpha": np.full((HEIGHT, WIDTH), 255, np.uint8)},
    ],
    ids=["pixels that do not count", "cut-outs"],
)
def test_what_has_no_background_gets_none(pixels: dict[str, np.ndarray]) -> None:
    assert len(background_points(ball_of_points(), ring(pixels=pixels), 100, seed=0).xyz) == 0


@pytest.mark.parametrize(("half", "added"), [(1.3, 0), (1.2, 100)])
def test_few_empty_cells_are_left_as_they_are(half: float, added: int) -> None:
    views, random = ring(), np.random.default_rng(1)
    xyz = random.uniform(-half, half, (20_000, 3)).astype(np.float32)
    empty = sum(len(empty_cells(view.camera, torch.from_numpy(xyz))) for view in views)
    cells = len(views) * CELLS * CELLS // 2
    assert (0 < empty <= LITTLE * cells) if added == 0 else (empty > LITTLE * cells)
    points = Points(xyz, np.zeros((len(xyz), 3), np.uint8))
    assert len(background_points(points, views, 100, seed=0).xyz) == added


def test_views_that_show_points_everywhere_or_have_a_lens_get_none() -> None:
    assert len(background_points(ball_of_points(20_000, 2.0), ring(), 100, seed=0).xyz) == 0
    views = ring()
    for view in views:
        view.camera = Camera(
            view.camera.world_to_cam, view.camera.intrinsics, WIDTH, HEIGHT, lens=radial_lens([0.1])
        )
    assert len(background_points(ball_of_points(), views, 100, seed=0).xyz) == 0


def test_training_starts_from_both_within_the_limits() -> None:
    views, points, device = ring(), ball_of_points(5000), torch.device("cpu")
    said: list[str] = []

    def count(**options: object) -> int:
        init = {name: value for name, value in options.items() if name != "max_gaussians"}
        config = TrainConfig(
            background="random", init=Init(**init), max_gaussians=options.get("max_gaussians")
        )  # pyright: ignore
        return first_primitives(points, config, views, device, say=said.append).count

    assert count() == 5000 and not said
    assert count(background_share=0.25) == 5000 + 1250
    assert "1,250 points are added behind the scene" in said[-1]
    assert count(background_share=0.25, max_points=2000) == 2000 + FEWEST_BEHIND
    assert count(background_share=0.25, max_gaussians=3000) == 3000
    assert "600 points" in said[-1]
