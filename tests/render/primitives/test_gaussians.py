"""The container of Gaussian parameters, and how a point cloud becomes one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Points
from luxel.render.primitives.gaussian_parameters import neighbour_distance
from luxel.render.primitives.gaussians import Gaussians


def test_names_order_and_degree(random_gaussians):
    for degree in range(4):
        gaussians = random_gaussians(5, sh_degree=degree)
        assert gaussians.sh_degree == degree and gaussians.count == 5
        assert tuple(gaussians.tensors()) == Gaussians.names


@pytest.mark.parametrize("name", Gaussians.names)
def test_wrong_shapes_are_refused_by_name(random_gaussians, name):
    tensors = random_gaussians(5).tensors()
    tensors[name] = tensors[name][:, None] if name != "sh_rest" else tensors[name][:, :4]
    with pytest.raises(ValueError, match=name):
        Gaussians(**tensors)


def test_select_and_cat(random_gaussians):
    gaussians = random_gaussians(6)
    mask = torch.tensor([True, False, True, True, False, False])
    both = Gaussians.cat(gaussians.select(mask), gaussians.select(~mask))
    order = torch.tensor([0, 2, 3, 1, 4, 5])
    for name, tensor in gaussians.select(order).tensors().items():
        assert torch.equal(getattr(both, name), tensor)
    both.means.zero_()
    assert gaussians.means.any(), "select copies"


def test_detach_shares_storage_and_requires_grad_is_in_place(random_gaussians):
    gaussians = random_gaussians(3).requires_grad_()
    assert all(t.requires_grad for t in gaussians.tensors().values())
    free = gaussians.detach()
    assert not free.means.requires_grad and free.means.data_ptr() == gaussians.means.data_ptr()


def test_from_points():
    xyz = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [50, 0, 0]], np.float32)
    rgb = np.array([[0, 128, 255]] * 5, np.uint8)
    gaussians = Gaussians.from_points(Points(xyz, rgb), sh_degree=2)
    assert gaussians.sh_rest.shape == (5, 8, 3) and not gaussians.sh_rest.any()
    torch.testing.assert_close(gaussians.opacities, torch.full((5,), 0.1))
    torch.testing.assert_close(gaussians.scales[0], torch.ones(3))
    torch.testing.assert_close(
        gaussians.sh_dc[0] * 0.28209479177387814 + 0.5, torch.tensor([0, 128 / 255, 1])
    )
    assert gaussians.scales[4].min() > 40


def test_from_points_of_one_place():
    """Duplicates have neighbours at distance 0; their scale stays a number."""
    xyz = np.repeat(np.array([[1.0, 2, 3], [4, 5, 6]], np.float32), 4, axis=0)
    gaussians = Gaussians.from_points(Points(xyz, np.zeros((8, 3), np.uint8)))
    assert gaussians.log_scales.isfinite().all()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_points(count):
    xyz = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    distance = neighbour_distance(xyz)
    assert distance.shape == (count,) and np.isfinite(distance).all() and (distance > 0).all()


def test_empty():
    for degree in range(4):
        empty = Gaussians.empty(degree)
        assert empty.count == 0 and empty.sh_degree == degree
