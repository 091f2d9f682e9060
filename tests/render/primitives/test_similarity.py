"""Rotating, scaling and moving primitives: a camera that moves along sees the same image."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.spherical_harmonics import sh_basis
from luxel.render.ops.raster.slice_gaussians4d import rotor_to_matrix
from luxel.render.primitives import PRIMITIVES, Gaussians, Gaussians4d, Parameters, PrimitiveSpec
from luxel.render.primitives.gaussians.parameters import quat_to_matrix
from luxel.render.primitives.gaussians4d.similarity4d import matrix_to_rotor, scale_space
from luxel.render.primitives.similarity import Similarity
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.synthetic.toy import torus_knot

TURN = (0.6, -0.3, 0.5, 0.4)
SIMILARITY = Similarity.about((0.3, -0.2, 0.1), quat=TURN, scale=1.7, shift=(0.5, 0.2, -0.8))


def coloured_knot(count: int = 120) -> Gaussians:
    """A knot whose colours depend on the direction up to degree 3."""
    generator = torch.Generator().manual_seed(5)
    knot = torus_knot(count)
    return replace(knot, sh_rest=0.2 * torch.randn(count, 15, 3, generator=generator))


def moving_knot() -> Gaussians4d:
    """The same with axes between space and time in half of the rows."""
    generator = torch.Generator().manual_seed(6)
    still = Gaussians4d.from_gaussians(coloured_knot(), time_scale=0.5)
    rotors = torch.nn.functional.normalize(still.rotors, dim=-1)
    tilt = 0.1 * torch.randn(still.count, 8, generator=generator)
    tilt[::2] = 0
    return replace(still, rotors=rotors + tilt)


def scenes() -> list[Parameters]:
    return [*(spec.engine.from_gaussians(coloured_knot()) for spec in PRIMITIVES.values()), moving_knot()]


def moved(camera: Camera, similarity: Similarity) -> Camera:
    """The camera that sees in the transformed scene what ``camera`` sees."""
    pose = camera.cam_to_world.double()
    pose[:3, :3] = similarity.matrix @ pose[:3, :3]
    pose[:3, 3] = similarity.apply(camera.position.double())
    return replace(camera, world_to_cam=torch.linalg.inv(pose).float())


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.primitive)
def test_camera_that_moves_along_sees_the_same_image(scene: Parameters) -> None:
    camera = Camera.look_at((3.0, -2.0, 1.0), (0, 0, 0), width=64, height=48)
    time = 0.2 if scene.moves else None
    before = rasterize(scene, camera, time=time).rgb
    after = rasterize(scene.transformed(SIMILARITY), moved(camera, SIMILARITY), time=time).rgb
    assert float(before.std()) > 0.05
    assert float((after - before).abs().max()) < 5e-3 and float((after - before).abs().mean()) < 1e-4
    unmoved = rasterize(scene.transformed(SIMILARITY), camera, time=time).rgb
    assert float((unmoved - before).abs().mean()) > 0.01
    assert float((scene.transformed(SIMILARITY).sizes / scene.sizes).median()) == pytest.approx(1.7, rel=0.2)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_spherical_harmonics_turn_with_the_scene(degree: int) -> None:
    generator = torch.Generator().manual_seed(degree)
    rest = torch.randn(4, (degree + 1) ** 2 - 1, 3, generator=generator, dtype=torch.float64)
    directions = torch.nn.functional.normalize(
        torch.randn(50, 3, generator=generator, dtype=torch.float64), dim=-1
    )
    turned = SIMILARITY.turn_sh(rest)
    along = directions @ SIMILARITY.matrix.T  # R d
    before = torch.einsum("pk,nkc->npc", sh_basis(directions, degree)[:, 1:], rest)
    after = torch.einsum("pk,nkc->npc", sh_basis(along, degree)[:, 1:], turned)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    assert float((turned - rest).abs().max()) > 0.1


def test_covariances_turn_and_grow() -> None:
    knot = coloured_knot(20).to(torch.float64)
    after = knot.transformed(SIMILARITY)

    def covariance(scene: Gaussians) -> torch.Tensor:
        root = quat_to_matrix(scene.quats) * scene.scales[:, None]
        return root @ root.mT

    stretch = 1.7 * SIMILARITY.matrix
    torch.testing.assert_close(covariance(after), stretch @ covariance(knot) @ stretch.T)
    torch.testing.assert_close(after.sh_dc, knot.sh_dc)


def test_scaling_space_keeps_time_of_4d_gaussians() -> None:
    scene = moving_knot().to(torch.float64)

    def covariance(log_scales: torch.Tensor, log_scale_t: torch.Tensor, rotors: torch.Tensor) -> torch.Tensor:
        root = rotor_to_matrix(rotors) * torch.cat([log_scales, log_scale_t[:, None]], -1).exp()[:, None]
        return root @ root.mT

    given = (scene.log_scales, scene.log_scale_t, scene.rotors)
    stretch = torch.diag(torch.tensor([0.4, 0.4, 0.4, 1.0], dtype=torch.float64))
    expected = stretch @ covariance(*given) @ stretch
    torch.testing.assert_close(covariance(*scale_space(*given, 0.4)), expected)
    matrices = rotor_to_matrix(scene.rotors)
    torch.testing.assert_close(rotor_to_matrix(matrix_to_rotor(matrices)), matrices)


@pytest.mark.parametrize(
    "bad",
    [
        {"scale": 0.0},
        {"scale": math.nan},
        {"quat": (0.0, 0.0, 0.0, 0.0)},
        {"translation": (math.inf, 0.0, 0.0)},
    ],
    ids=str,
)
def test_impossible_similarities_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be finite|scale must be above 0"):
        Similarity(**bad)


@pytest.mark.parametrize("spec", PRIMITIVES.values(), ids=lambda spec: spec.name)
def test_base_colours_are_what_was_set(spec: PrimitiveSpec) -> None:
    scene = spec.engine.from_gaussians(coloured_knot(10))
    rgb = torch.rand(10, 3)
    torch.testing.assert_close(scene.with_base_colours(rgb).base_colours, rgb)


def _random(seed: int) -> Similarity:
    draw = np.random.default_rng(seed)
    quat, shift = draw.normal(size=4).tolist(), (1e3 * draw.normal(size=3)).tolist()
    return Similarity(tuple(quat), float(np.exp(draw.normal())), tuple(shift))


def _moved(similarity: Similarity, points: np.ndarray) -> np.ndarray:
    return similarity.apply(torch.from_numpy(points)).numpy()


def test_transforms_are_composed_and_taken_back_in_double() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    for seed in range(20):
        first, second = _random(seed), _random(seed + 100)
        both = second.after(first)
        expected = _moved(second, _moved(first, points))
        np.testing.assert_allclose(_moved(both, points), expected, rtol=1e-12, atol=1e-12 * 1e4)
        back = _moved(first.inverse().after(first), points)
        np.testing.assert_allclose(back, points, rtol=0, atol=1e-12 * 1e3)
        directions = points / np.linalg.norm(points, axis=1, keepdims=True)
        apart = _moved(first, points + directions) - _moved(first, points)
        np.testing.assert_allclose(first.turned(directions), apart / first.scale, rtol=0, atol=1e-12 * 1e3)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.3, 1.5, 3.0, 3.1415, math.pi - 1e-7, math.pi])
def test_the_shortest_rotation_between_two_directions(angle: float) -> None:
    draw = np.random.default_rng(4)
    a, other = draw.normal(size=3), draw.normal(size=3)
    square = np.cross(a, other)
    square *= np.linalg.norm(a) / np.linalg.norm(square)
    b = 7.0 * (np.cos(angle) * a + np.sin(angle) * square)
    turn = Similarity.between(a, b)
    np.testing.assert_allclose(turn.turned(a / np.linalg.norm(a)), b / np.linalg.norm(b), rtol=0, atol=1e-14)
    turned_by = math.acos(float(np.clip((np.trace(turn.matrix.numpy()) - 1) / 2, -1, 1)))
    assert turned_by == pytest.approx(angle, abs=1e-6)


def test_a_direction_of_length_0_has_no_rotation() -> None:
    with pytest.raises(ValueError, match="a direction must have a length above 0"):
        Similarity.between((0, 0, 0), (0, 0, 1))


def test_a_camera_of_the_transformed_scene_sees_the_same() -> None:
    points = np.random.default_rng(1).normal(size=(50, 3))
    for seed in range(10):
        similarity = _random(seed)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = _random(seed + 50).matrix.numpy(), (0.1, -0.2, 5.0)
        before = points @ pose[:3, :3].T + pose[:3, 3]
        after = similarity.pose(pose)
        seen = _moved(similarity, points) @ after[:3, :3].T + after[:3, 3]
        np.testing.assert_allclose(seen, similarity.scale * before, rtol=0, atol=1e-12 * 1e4)


def test_clipping_and_the_motion_of_a_rolling_shutter_are_scaled() -> None:
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), width=8, height=6)
    shutter = torch.tensor([1.0, 2, 3, 0.4, 0.5, 0.6, 0, 1])
    moving = replace(camera, near=0.1, far=20.0, shutter=shutter)
    scaled = Similarity((0.5, 0.5, 0.5, 0.5), 4.0, (1.0, 2.0, 3.0)).camera(moving)
    assert (scaled.near, scaled.far) == (pytest.approx(0.4), pytest.approx(80.0))
    assert scaled.shutter is not None
    torch.testing.assert_close(scaled.shutter, torch.tensor([4.0, 8, 12, 0.4, 0.5, 0.6, 0, 1]))
