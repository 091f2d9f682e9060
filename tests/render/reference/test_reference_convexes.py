"""The reference of convexes: against a loop over pixels, bounds, what is dropped, batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from convex_scenes import D, axis_camera, facing, random_convexes, solid
from scipy.spatial import ConvexHull, HalfspaceIntersection

from luxel.render.geometry.camera import Camera
from luxel.render.ops.field.spherical_harmonics import sh_basis
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.bin_convexes import bin_convexes_reference
from luxel.render.reference.raster.bin_splats import TILE
from luxel.render.reference.raster.blend_convexes import indicator
from luxel.render.reference.raster.project_convexes import project_convexes_reference
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference


def naive_rasterize(convexes: Convexes, camera: Camera, background: np.ndarray):
    """One pixel at a time, one convex at a time, hulls by Qhull; shares no line with the reference."""
    c = {name: t.numpy() for name, t in convexes.tensors().items()}
    world_to_cam, (fx, fy, cx, cy) = camera.world_to_cam.numpy(), camera.intrinsics.numpy()
    eye = -world_to_cam[:3, :3].T @ world_to_cam[:3, 3]
    seen = []
    for n in range(convexes.count):
        mask = 1 / (1 + math.exp(-c["mask_logits"][n])) > 0.01
        center = c["points"][n].mean(0)
        z = (world_to_cam[:3, :3] @ center + world_to_cam[:3, 3])[2]
        local = c["points"][n] @ world_to_cam[:3, :3].T + world_to_cam[:3, 3]
        if not mask or z <= 0.2 or local[:, 2].min() <= camera.near:
            continue
        flat = np.stack([fx * local[:, 0] / local[:, 2] + cx, fy * local[:, 1] / local[:, 2] + cy], -1)
        hull = flat[ConvexHull(flat).vertices]
        direction = torch.from_numpy((center - eye) / np.linalg.norm(center - eye))
        basis = sh_basis(direction, convexes.sh_degree).numpy()
        color = np.maximum(0, basis @ np.concatenate([c["sh_dc"][n][None], c["sh_rest"][n]]) + 0.5)
        delta, sigma = math.exp(c["log_delta"][n]), math.exp(c["log_sigma"][n])
        opacity = 1 / (1 + math.exp(-c["opacity_logits"][n]))
        seen.append((z, hull, delta, sigma, opacity, np.append(color, z)))
    seen.sort(key=lambda s: s[0])
    image = np.zeros((camera.height, camera.width, 4))
    alphas, counts = np.zeros(image.shape[:2]), np.zeros(image.shape[:2], int)
    for row in range(camera.height):
        for column in range(camera.width):
            left, q = 1.0, (column + 0.5, row + 0.5)
            for z, hull, delta, sigma, opacity, value in seen:
                total = 0.0
                for a, b in zip(hull, np.roll(hull, -1, 0), strict=True):
                    n = (b[1] - a[1], -(b[0] - a[0]))
                    total += math.exp(z * delta * (n[0] * q[0] + n[1] * q[1] - (n[0] * a[0] + n[1] * a[1])))
                power = z * sigma * math.log(total)
                alpha = min(0.99, opacity / (1 + math.exp(min(power, 600))))
                if alpha < 1 / 255:
                    continue
                if left * (1 - alpha) <= 1e-4:
                    break
                image[row, column] += left * alpha * value
                left *= 1 - alpha
                counts[row, column] += 1
            image[row, column, :3] += left * background
            alphas[row, column] = 1 - left
    return image, alphas, counts


@pytest.mark.parametrize("k", [3, 4, 6, 8])
def test_agrees_with_a_loop_over_pixels(toy_camera, k):
    convexes, camera = random_convexes(25, seed=k, k=k), toy_camera(35, 18, off_centre=True, dtype=D)
    background = torch.tensor([0.2, 0.4, 0.9], dtype=D)
    frame = rasterize_convexes_reference(convexes, camera, background=background, depth=True)
    image, alpha, count = naive_rasterize(convexes, camera, background.numpy())
    assert count.max() > 5
    np.testing.assert_array_equal(frame.count, count)
    np.testing.assert_allclose(frame.rgb, image[..., :3], atol=1e-12)
    np.testing.assert_allclose(frame.alpha, alpha, atol=1e-12)
    np.testing.assert_allclose(frame.depth * frame.alpha, image[..., 3], atol=1e-12)


def test_blur_keeps_its_share_of_a_convex_at_any_distance():
    """z^2 delta sigma L is the same at the same place of a convex, near or far; so is the indicator at its edges.

    Rounding by the other edges is not: it is at most z sigma ln M, and kept small here.
    """
    share = torch.linspace(-1.5, 1.5, 41, dtype=D)
    profiles = []
    for depth in (4.0, 8.0, 16.0):
        convexes = solid(facing(depth), torch.ones(1, 3), delta=100.0, sigma=1e-4)
        splats = project_convexes_reference(convexes, axis_camera(focal=16.0))
        radius = 16.0 / depth
        pixels = torch.stack([32 + share * radius, torch.full_like(share, 32 + 0.01 * radius)], -1)
        parts = (splats.corners, splats.normals, splats.edges, splats.delta, splats.sigma)
        profiles.append(indicator(pixels, *parts)[:, 0])
        assert profiles[-1].max() > 0.9 and profiles[-1].min() < 0.1
    torch.testing.assert_close(profiles[1], profiles[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(profiles[2], profiles[0], atol=1e-3, rtol=0)


def test_nothing_shows_outside_of_the_bounds():
    """Tile lists leave out only what is below 1/255; boxes are those of the polygons that cannot be left."""
    camera = axis_camera(80, 60, 40.0)
    convexes = random_convexes(30, seed=4, size=0.3)
    convexes.points[..., 2] += 4
    convexes.points[:8] *= torch.tensor([1, 0.02, 1], dtype=D)  # thin ones
    splats = project_convexes_reference(convexes, camera)
    instances, ranges = bin_convexes_reference(splats, camera.width, camera.height)
    assert ranges.shape == (5 * 4, 2) and ranges[-1, 1] == instances.numel()
    listed = torch.zeros(len(splats.index), 4, 5, dtype=torch.bool)
    for tile, (start, end) in enumerate(ranges.tolist()):
        listed[instances[start:end], tile // 5, tile % 5] = True
        assert (splats.depth[instances[start:end]].diff() >= 0).all()
    along = torch.arange(-80, 160, dtype=D) + 0.5
    y, x = torch.meshgrid(along, along, indexing="ij")
    pixels = torch.stack([x, y], -1).reshape(-1, 2)
    parts = (splats.corners, splats.normals, splats.edges, splats.delta, splats.sigma)
    shows = splats.opacity * indicator(pixels, *parts) >= 1 / 255
    assert (listed.sum((1, 2)) < 20).sum() > 10 and shows.any(0).sum() > 20
    for i in range(len(splats.index)):
        shown = pixels[shows[:, i]]
        assert (shown >= splats.low[i]).all() and (shown <= splats.high[i]).all()
        shown = shown[((shown > 0) & (shown < torch.tensor([80, 60]))).all(-1)]
        column, row = (shown / TILE).long().unbind(-1)
        assert listed[i, row, column].all()
        assert splats.reach[i] > 0
        m = int(splats.edges[i])
        normal, corner = splats.normals[i, :m], splats.corners[i, :m]
        limits = torch.cat([normal, -(normal * corner).sum(-1, keepdim=True) - splats.reach[i]], -1)
        polygon = HalfspaceIntersection(limits.numpy(), corner.mean(0).numpy()).intersections
        np.testing.assert_allclose(splats.low[i], polygon.min(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(splats.high[i], polygon.max(0), rtol=1e-9, atol=1e-9)


def test_near_and_far_of_the_camera_count():
    camera = axis_camera()
    convexes = solid(facing(5.0), torch.ones(1, 3))
    for limits, seen in (({"near": 5.1}, 0), ({"far": 4.9}, 0), ({"near": 4.9, "far": 5.1}, 1)):
        limited = Camera(camera.world_to_cam, camera.intrinsics, 64, 64, **limits)
        assert len(project_convexes_reference(convexes, limited).index) == seen


def test_batches_tiles_chunks_and_features(toy_camera, monkeypatch):
    convexes = random_convexes(30, seed=1)
    cameras = [toy_camera(40, 30, dtype=D), toy_camera(40, 30, eye=(2, 2, 1), dtype=D)]
    background, features = torch.rand(2, 3, dtype=D), convexes.centroids
    batch = rasterize_convexes_reference(
        convexes, Camera.stack(cameras), background=background, features=features
    )
    for i, camera in enumerate(cameras):
        one = rasterize_convexes_reference(convexes, camera, background=background[i], features=features)
        torch.testing.assert_close(batch.rgb[i], one.rgb)
        torch.testing.assert_close(batch.features[i], one.features)
    part = rasterize_convexes_reference(convexes, cameras[0], background=background[0], tiles=[4])
    torch.testing.assert_close(part.rgb[16:, 16:32], batch.rgb[0, 16:, 16:32])
    assert not part.rgb[:16].any() and not part.alpha[:16].any()
    from luxel.render.reference.raster import rasterize_convexes as module

    blend = module.blend_convexes_reference
    monkeypatch.setattr(module, "blend_convexes_reference", lambda *a, **k: blend(*a, **k, chunk=3))
    small = rasterize_convexes_reference(convexes, Camera.stack(cameras), background=background)
    torch.testing.assert_close(small.rgb, batch.rgb, rtol=1e-12, atol=1e-12)
    assert torch.equal(small.count, batch.count)


def test_float32_is_near_float64(toy_camera):
    convexes, camera = random_convexes(60, seed=7, sh_degree=3), toy_camera(64, 64, off_centre=True, dtype=D)
    expected = rasterize_convexes_reference(convexes, camera)
    actual = rasterize_convexes_reference(convexes.to(torch.float32), camera.to(torch.float32))
    assert expected.splats[0].margin.min() > 1e-4 and actual.rgb.dtype == torch.float32
    keep = expected.margin > 1e-3
    assert keep.double().mean() > 0.9
    torch.testing.assert_close(actual.rgb.double()[keep], expected.rgb[keep], atol=1e-4, rtol=0)


def test_no_convexes_at_all(toy_camera):
    background = torch.tensor([0.1, 0.2, 0.3], dtype=D)
    empty = Convexes.empty(5).to(D)
    frame = rasterize_convexes_reference(empty, toy_camera(20, 17, dtype=D), background=background)
    torch.testing.assert_close(frame.rgb, background.expand(17, 20, 3))
    assert empty.points_each == 5 and not frame.alpha.any()
