"""The container of convexes: shapes, start from points, subsets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera, Points
from luxel.render.primitives.convexes import STARTING_SIGMA, Convexes, fibonacci_sphere
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference


def points_of(xyz: list) -> Points:
    return Points(
        np.array(xyz, np.float32).reshape(-1, 3),
        np.array([[0, 128, 255]] * len(xyz), np.uint8).reshape(-1, 3),
    )


TETRAHEDRON = points_of([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("k", range(3, 9))
def test_start_from_points(k):
    convexes = Convexes.from_points(TETRAHEDRON, points_each=k, sh_degree=2)
    assert convexes.points.shape == (4, k, 3) and (convexes.count, convexes.points_each) == (4, k)
    assert convexes.sh_rest.shape == (4, 8, 3) and not convexes.sh_rest.any() and convexes.sh_degree == 2
    distance = torch.tensor([1, *[math.sqrt(5 / 3)] * 3])
    radii = (convexes.points - torch.from_numpy(TETRAHEDRON.xyz)[:, None]).norm(dim=-1)
    torch.testing.assert_close(radii, 1.2 * distance[:, None].expand(4, k))
    torch.testing.assert_close(convexes.deltas, 0.1 / distance)
    torch.testing.assert_close(convexes.sigmas, torch.full((4,), 9e-4))
    torch.testing.assert_close(convexes.opacities, torch.full((4,), 0.1))
    torch.testing.assert_close(convexes.sh_dc[0] * SH_C0 + 0.5, torch.tensor([0, 128 / 255, 1]))
    assert convexes.mask_logits.tolist() == [1] * 4 and convexes.masks.tolist() == [1] * 4
    assert {str(t.dtype) for t in convexes.tensors().values()} == {"torch.float32"}
    assert list(convexes.tensors()) == list(Convexes.names)


def test_presets_of_sigma():
    assert STARTING_SIGMA == {"light": 9.5e-4, "outdoor": 1e-3, "indoor": 9e-4}
    light = Convexes.from_points(TETRAHEDRON, sigma=STARTING_SIGMA["light"])
    torch.testing.assert_close(light.sigmas, torch.full((4,), 9.5e-4))


def test_start_from_points_at_one_place():
    """The mean square distance is at least 1e-7."""
    convexes = Convexes.from_points(points_of([[1, 2, 3]] * 5))
    torch.testing.assert_close(convexes.deltas, torch.full((5,), 0.1 / math.sqrt(1e-7)))
    assert (convexes.points - torch.tensor([1.0, 2, 3])).norm(dim=-1).max() < 1.21 * math.sqrt(1e-7) + 1e-6


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_points(count):
    convexes = Convexes.from_points(points_of([[i, 0, 0] for i in range(count)]))
    assert convexes.count == count
    assert all(tensor.isfinite().all() for tensor in convexes.tensors().values())


@pytest.mark.parametrize("count", range(3, 9))
def test_directions_are_spread(count):
    directions = fibonacci_sphere(count)
    torch.testing.assert_close(directions.norm(dim=-1), torch.ones(count, dtype=torch.float64))
    assert (directions @ directions.T - torch.eye(count)).max() < 0.72  # over 44 degrees apart
    assert directions.mean(0).norm() < 0.4
    assert np.linalg.matrix_rank((directions - directions[0]).numpy(), tol=0.1) == min(count - 1, 3)


def test_size_in_the_world():
    convexes = Convexes.from_points(TETRAHEDRON, points_each=3)
    convexes.points[0] = torch.tensor([[0.0, 0, 0], [2, 1, 0], [4, -1, 0]])
    torch.testing.assert_close(convexes.world_scale[0], torch.tensor(2.0))
    torch.testing.assert_close(convexes.centroids[0], torch.tensor([2.0, 0, 0]))


@pytest.mark.parametrize("k", [0, 2, 9])
def test_numbers_of_points_that_no_convex_has(k):
    with pytest.raises(ValueError, match=rf"points must be \[N, 3\.\.8, 3\], got \[4, {k}, 3\]"):
        Convexes(**{**Convexes.from_points(TETRAHEDRON).tensors(), "points": torch.zeros(4, k, 3)})


@pytest.mark.parametrize("name", Convexes.names)
def test_shapes_are_checked(name):
    tensors = Convexes.from_points(TETRAHEDRON, points_each=4).tensors()
    tensors[name] = tensors[name][:, None] if name != "sh_rest" else tensors[name][:, :4]
    with pytest.raises(ValueError, match=name):
        Convexes(**tensors)


def test_select_cat_and_gradients():
    convexes = Convexes.from_points(TETRAHEDRON)
    mask = torch.tensor([True, False, True, False])
    both = Convexes.cat(convexes.select(mask), convexes.select(~mask))
    for name, tensor in convexes.select(torch.tensor([0, 2, 1, 3])).tensors().items():
        assert torch.equal(getattr(both, name), tensor)
    both.points.zero_()
    assert convexes.points.any(), "select copies"
    convexes.requires_grad_()
    free = convexes.detach()
    assert not free.points.requires_grad and free.points.data_ptr() == convexes.points.data_ptr()


def test_scaled_convexes_look_the_same_magnified() -> None:
    convexes = Convexes.from_points(points_of([[0, 0, 0], [0.1, 0, 0]]), opacity=0.9).select(
        torch.tensor([0])
    )
    convexes.points -= convexes.centroids[:, None]
    camera = Camera.look_at((0, -20, 0), (0, 0, 0), fov_y=0.03, width=49, height=49)  # a pixel in the middle

    def alpha(scene: Convexes) -> torch.Tensor:
        return rasterize_convexes_reference(scene.to(torch.float64), camera).alpha

    small, large = alpha(convexes), alpha(convexes.scaled(2))
    assert small.max() > 0.5 and small[12:37, 12:37].min() < 0.1
    # A little nearer or farther, since they have a depth.
    assert (large[::2, ::2] - small[12:37, 12:37]).abs().max() < 0.03
