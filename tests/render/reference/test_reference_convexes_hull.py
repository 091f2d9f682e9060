"""Polygons of convexes on the image: against Qhull, in special positions, and how far they are from others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from convex_scenes import D, axis_camera, solid
from scipy.spatial import ConvexHull

from luxel.render.reference.raster.project_convexes import hull2d, project_convexes_reference


def corners(points) -> list[tuple[float, float]]:
    given = torch.tensor(points, dtype=D)
    order, edges = hull2d(given[None])
    assert edges[0] == len(points) or (order[0, edges[0] :] == order[0, 0]).all()
    return [tuple(given[i].tolist()) for i in order[0, : edges[0]].tolist()]


def test_hulls_of_random_points_are_those_of_qhull():
    points = torch.randn(300, 8, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    order, edges = hull2d(points)
    for i in range(300):
        expected = ConvexHull(points[i].numpy()).vertices.tolist()
        actual = order[i, : edges[i]].tolist()
        start = expected.index(actual[0])
        assert actual == expected[start:] + expected[:start]


SQUARE = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]


@pytest.mark.parametrize(
    "points",
    [
        SQUARE,
        SQUARE[::-1],
        [*SQUARE, (1.0, 1.0), (0.5, 1.5)],  # within
        [*SQUARE, (1.0, 0.0), (2.0, 1.0), (1.0, 2.0), (0.0, 1.0)],  # on every edge
        [(1.0, 0.0), (0.0, 1.0), *SQUARE, (0.0, 0.5)],  # on those that meet at the pivot
        [*SQUARE, *SQUARE],  # everything twice
        [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), *SQUARE[1:]],  # the pivot thrice
        [*SQUARE, (0.0, 2.0), (0.0, 2.0)],  # the last corner thrice
    ],
)
def test_hulls_of_a_square(points):
    """From the corner of least y, and least x among those, around with x right and y down clockwise."""
    assert corners(points) == SQUARE


@pytest.mark.parametrize(
    "points",
    [
        [(1.0, 1.0)] * 5,
        [(1.0, 1.0), (2.0, 3.0)] * 2,
        [(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (2.0, 0.0)],
        [(0.0, 3.0), (0.0, 1.0), (0.0, 2.0)],
        [(1.0, 2.0), (3.0, 6.0), (2.0, 4.0), (0.0, 0.0)],
        [(1.0, -1.0), (0.0, 0.0), (-2.0, 2.0), (3.0, -3.0)],
    ],
)
def test_points_in_line_have_no_polygon(points):
    assert len(corners(points)) < 3


@pytest.mark.parametrize("seed", range(3))
def test_hulls_in_any_order_of_small_whole_numbers(seed):
    """Many ties: points on a grid of 4 x 4. Strictly convex, holding all points, whatever their order."""
    points = torch.randint(0, 4, (400, 7, 2), generator=torch.Generator().manual_seed(seed)).to(D)
    order, edges = hull2d(points)
    shuffled, same = hull2d(points.flip(1))
    assert torch.equal(edges, same)
    for i in range(400):
        m = int(edges[i])
        hull = points[i, order[i, :m]]
        assert {tuple(p) for p in hull.tolist()} == {
            tuple(p) for p in points[i].flip(0)[shuffled[i, :m]].tolist()
        }
        if m < 3:
            assert np.linalg.matrix_rank((points[i] - points[i, 0]).numpy()) < 2
            continue
        step = hull.roll(-1, 0) - hull
        turn = step[:, 0] * step.roll(-1, 0)[:, 1] - step[:, 1] * step.roll(-1, 0)[:, 0]
        assert (turn > 0).all()
        to = points[i][:, None] - hull
        assert (step[:, 0] * to[..., 1] - step[:, 1] * to[..., 0] >= 0).all()


@pytest.mark.parametrize(
    ("points", "margin"),
    [
        (SQUARE, 1.0),
        ([*SQUARE, (1.0, 1.0)], 0.5),
        ([*SQUARE, (1.0, 1e-3)], 5e-4),  # soon another corner
        ([(0, 0), (2, 0), (2, 2), (1, 2 + 1e-3), (0, 2)], 2e-3),  # soon none
        ([*SQUARE, (2.0, 2.0)], 0.0),
        ([(0, 0), (3, 0), (0, 4)], 0.6),
    ],
)
def test_how_far_a_polygon_is_from_another(points, margin):
    flat = torch.tensor(points, dtype=D) - 1
    convexes = solid(torch.nn.functional.pad(flat, (0, 1), value=5.0)[None], torch.ones(1, 3))
    splats = project_convexes_reference(convexes, axis_camera())
    torch.testing.assert_close(splats.margin, torch.tensor([margin], dtype=D), atol=1e-6, rtol=1e-3)
