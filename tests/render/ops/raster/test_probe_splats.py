"""Alpha of splats at a point: that of the image which each of them gives alone."""

from __future__ import annotations

import pytest
import torch
from convex_scenes import random_convexes
from surfel_scenes import random_surfels, well_observed

from luxel.render.native import cpu_library
from luxel.render.ops.raster.policies import policies, policy
from luxel.render.ops.raster.probe import probe
from luxel.render.raster.rasterize import rasterize

CAP = 0.99


def test_alpha_is_that_of_blending(random_gaussians, toy_camera, precision):
    camera = toy_camera(50, 37, dtype=torch.float64)
    scenes = {
        "gaussians": random_gaussians(30),
        "convexes": random_convexes(30, seed=2),
        "surfels": well_observed(random_surfels(30, seed=3), camera),
    }
    assert scenes.keys() == policies(cpu_library()).keys()
    tolerance = 1e-5 if precision["dtype"] == torch.float32 else 1e-12
    for name, scene in scenes.items():
        hit = 0
        for n in range(scene.count):
            one = scene.select(torch.tensor([n])).map(lambda t: t.to(**precision))
            frame = rasterize(one, camera.to(precision["dtype"]).to(precision["device"]), max_alpha=CAP)
            if frame.splats is None or frame.tile_counts is None or not frame.tile_counts.any():
                continue
            for column, row in ((25, 18), (20, 15), (31, 22)):
                alpha = probe(frame.splats.reshape(1, -1), column + 0.5, row + 0.5, primitive=name)
                expected = frame.alpha[row, column]
                if abs(float(alpha) - 1 / 255) < 1e-4:
                    continue
                drawn = torch.where(alpha >= 1 / 255, alpha.clamp_max(CAP), 0.0)[0]
                torch.testing.assert_close(drawn, expected, rtol=tolerance, atol=tolerance)
                hit += float(expected) > 0
        assert hit > 3, name


def test_nothing_and_what_is_refused(device):
    assert probe(torch.zeros(0, 8, device=device), 0.5, 0.5, primitive="gaussians").shape == (0,)
    with pytest.raises(ValueError, match=r"splats of surfels must be \[M, 12\], got \[2, 8\]"):
        probe(torch.zeros(2, 8, device=device), 0.5, 0.5, primitive="surfels")
    with pytest.raises(
        ValueError, match="probe: primitive must be one of gaussians, convexes, surfels, got spheres"
    ):
        probe(torch.zeros(2, 8, device=device), 0.5, 0.5, primitive="spheres")


def test_opcheck(device):
    rows = torch.rand(5, 28, device=device) + 0.5
    rows[:, 6] = 3.0  # edges
    torch.library.opcheck(torch.ops.luxel.probe.default, (rows, 1.5, 0.5, "convexes"))


def test_the_table_of_policies():
    known = policies(cpu_library())
    assert [p.number for p in known.values()] == list(range(len(known)))
    assert cpu_library().policy(len(known)) is None and cpu_library().policy(-1) is None
    assert policy("convexes", "a test") == ("convexes", 1, 28, 128, True, False, False)
    assert policy("surfels", "a test").pixel_depth and policy("gaussians", "a test").has_absolute
