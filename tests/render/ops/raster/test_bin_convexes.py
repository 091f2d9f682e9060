"""Lists of convexes per tile are those of the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from convex_scenes import D, random_convexes
from splat_stages import draw

from luxel.render.geometry.camera import Camera
from luxel.render.reference.raster.bin_convexes import bin_convexes_reference
from luxel.render.reference.raster.project_convexes import project_convexes_reference


def lists_of(instances, ranges) -> list[list[int]]:
    return [instances[start:end].tolist() for start, end in ranges.tolist()]


@pytest.mark.parametrize("k", [3, 5, 8])
@pytest.mark.parametrize("size", [0.05, 0.4, 2.0])
def test_lists_are_those_of_the_reference(toy_camera, precision, k, size):
    cameras = Camera.stack(
        [toy_camera(150, 100, dtype=D), toy_camera(150, 100, eye=(2.5, 2, 1), off_centre=True, dtype=D)]
    )
    convexes = random_convexes(150, seed=k, k=k, size=size)
    convexes.points[:30, :, 1] = convexes.points[:30, :1, 1] + 0.05 * convexes.points[:30, :, 1]  # thin ones
    drawn = draw(
        convexes.map(lambda t: t.to(**precision)), cameras.to(precision["dtype"]).to(precision["device"])
    )
    instances, ranges, overflow, _ = drawn.lists
    assert overflow.item() == 0 and ranges[-1, 1] == drawn.totals[1] == drawn.tile_counts.sum()
    actual, tiles = lists_of(instances, ranges), ranges.shape[0] // 2
    for c in range(2):
        one = replace(cameras, world_to_cam=cameras.world_to_cam[c], intrinsics=cameras.intrinsics[c])
        witness = project_convexes_reference(convexes, one)
        expected = lists_of(*bin_convexes_reference(witness, 150, 100))
        expected = [(witness.index[which] + 150 * c).tolist() for which in expected]
        missing = extra = 0
        for own, true in zip(actual[c * tiles : (c + 1) * tiles], expected, strict=True):
            missing, extra = missing + len(set(true) - set(own)), extra + len(set(own) - set(true))
            # The kernels' bounds are a hair wider: a convex that only grazes a tile may be listed besides.
            assert [i for i in own if i in true] == true
        assert sum(map(len, expected)) > 150 and missing == 0 and extra <= 2 + 0.01 * sum(map(len, expected))
