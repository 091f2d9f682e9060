"""The reference rasterizer is itself proved: by a loop over pixels in plain Python, and by finite differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from luxel.render.ops.field.spherical_harmonics import sh_basis
from luxel.render.reference.raster.bin_splats import TILE, bin_splats_reference
from luxel.render.reference.raster.project_gaussians import project_gaussians_reference
from luxel.render.reference.raster.rasterize import rasterize_reference

D = torch.float64


def naive_rasterize(gaussians, camera, background, dilation, max_alpha, antialiased, features):
    """One pixel at a time, one Gaussian at a time; shares no line with the reference."""
    g = {name: t.numpy() for name, t in gaussians.tensors().items()}
    world_to_cam, (fx, fy, cx, cy) = camera.world_to_cam.numpy(), camera.intrinsics.numpy()
    width, height = camera.width, camera.height
    eye = -world_to_cam[:3, :3].T @ world_to_cam[:3, 3]
    splats = []
    for n in range(gaussians.count):
        t = world_to_cam[:3, :3] @ g["means"][n] + world_to_cam[:3, 3]
        if not camera.near < t[2] < camera.far:
            continue
        w, *v = g["quats"][n] / np.linalg.norm(g["quats"][n])
        cross = np.cross(np.eye(3), v)  # cross @ p = v x p
        rotation = np.eye(3) + 2 * w * cross + 2 * cross @ cross  # Rodrigues
        covariance = rotation @ np.diag(np.exp(2 * g["log_scales"][n])) @ rotation.T
        slope_x = min(max(t[0] / t[2], -cx / fx - 0.15 * width / fx), (width - cx) / fx + 0.15 * width / fx)
        slope_y = min(
            max(t[1] / t[2], -cy / fy - 0.15 * height / fy), (height - cy) / fy + 0.15 * height / fy
        )
        jacobian = np.array([[fx, 0, -fx * slope_x], [0, fy, -fy * slope_y]]) / t[2] @ world_to_cam[:3, :3]
        plain = jacobian @ covariance @ jacobian.T
        wide = plain + dilation * np.eye(2)
        opacity = 1 / (1 + math.exp(-g["opacity_logits"][n]))
        if antialiased:
            opacity *= math.sqrt(max(0.0, np.linalg.det(plain) / np.linalg.det(wide)))
        direction = g["means"][n] - eye
        basis = sh_basis(torch.from_numpy(direction / np.linalg.norm(direction)), gaussians.sh_degree).numpy()
        color = np.maximum(0, basis @ np.concatenate([g["sh_dc"][n][None], g["sh_rest"][n]]) + 0.5)
        normal = rotation[:, g["log_scales"][n].argmin()]
        normal = normal * (-1 if normal @ direction > 0 else 1)
        mean = np.array([fx * t[0] / t[2] + cx, fy * t[1] / t[2] + cy])
        splats.append(
            (t[2], mean, np.linalg.inv(wide), opacity, np.concatenate([color, t[2:], normal, features[n]]))
        )
    splats.sort(key=lambda s: s[0])
    values = np.zeros((height, width, 7 + features.shape[1]))
    alphas, medians, counts = (
        np.zeros((height, width)),
        np.zeros((height, width)),
        np.zeros((height, width), int),
    )
    for row in range(height):
        for column in range(width):
            left = 1.0
            for z, mean, conic, opacity, value in splats:
                d = np.array([column + 0.5, row + 0.5]) - mean
                alpha = min(max_alpha, opacity * math.exp(-0.5 * d @ conic @ d))
                if alpha < 1 / 255:
                    continue
                if left * (1 - alpha) <= 1e-4:
                    break
                values[row, column] += left * alpha * value
                left *= 1 - alpha
                counts[row, column] += 1
                if left <= 0.5 and medians[row, column] == 0:
                    medians[row, column] = z
            values[row, column, :3] += left * background
            alphas[row, column] = 1 - left
    return values, alphas, medians, counts


@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize(
    "opacity_logit", [0.0, 5.0]
)  # 5: many pixels are capped, and end before the last splat
def test_agrees_with_a_loop_over_pixels(random_gaussians, toy_camera, antialiased, opacity_logit):
    gaussians = random_gaussians(40, seed=3, opacity_logit=opacity_logit, scale=0.2, dtype=D)
    camera = toy_camera(35, 18, off_centre=True, dtype=D)
    features = torch.rand(40, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    background = torch.tensor([0.2, 0.4, 0.9], dtype=D)
    options = {"dilation": 0.2, "max_alpha": 0.95, "antialiased": antialiased}
    frame = rasterize_reference(
        gaussians, camera, background=background, depth=True, normals=True, features=features, **options
    )
    values, alpha, median, count = naive_rasterize(
        gaussians, camera, background.numpy(), features=features.numpy(), **options
    )
    assert count.max() > 5
    np.testing.assert_array_equal(frame.count, count)
    np.testing.assert_allclose(frame.rgb, values[..., :3], atol=1e-12)
    np.testing.assert_allclose(frame.alpha, alpha, atol=1e-12)
    np.testing.assert_allclose(frame.depth * frame.alpha, values[..., 3], atol=1e-12)
    np.testing.assert_allclose(frame.normals, values[..., 4:7], atol=1e-12)
    np.testing.assert_allclose(frame.features, values[..., 7:], atol=1e-12)
    np.testing.assert_allclose(frame.median_depth, median, atol=1e-12)


def test_memory_can_be_bounded_by_chunks(random_gaussians, toy_camera, monkeypatch):
    from luxel.render.reference.raster import rasterize as module

    gaussians, camera = random_gaussians(60, dtype=D, opacity_logit=3), toy_camera(20, 20, dtype=D)
    whole = rasterize_reference(gaussians, camera, depth=True)
    blend = module.blend_gaussians_reference
    monkeypatch.setattr(module, "blend_gaussians_reference", lambda *a, **k: blend(*a, **k, chunk=7))
    parts = rasterize_reference(gaussians, camera, depth=True)
    for name in ("rgb", "alpha", "depth", "median_depth", "count", "margin"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_a_choice_of_tiles_is_a_part_of_the_image(random_gaussians, toy_camera):
    gaussians, camera = random_gaussians(60, dtype=D), toy_camera(40, 30, dtype=D)
    background = torch.ones(3, dtype=D)
    whole = rasterize_reference(gaussians, camera, background=background)
    one = rasterize_reference(gaussians, camera, background=background, tiles=[4])
    torch.testing.assert_close(one.rgb[16:, 16:32], whole.rgb[16:, 16:32])
    torch.testing.assert_close(one.rgb.sum(), whole.rgb[16:, 16:32].sum())
    torch.testing.assert_close(one.alpha.sum(), whole.alpha[16:, 16:32].sum())


def test_batch_is_its_cameras_one_by_one(random_gaussians, toy_camera):
    gaussians = random_gaussians(30, dtype=D)
    cameras = [toy_camera(20, 17, dtype=D), toy_camera(20, 17, eye=(2, 2, 1), dtype=D)]
    background = torch.rand(2, 3, dtype=D)
    batch = rasterize_reference(gaussians, type(cameras[0]).stack(cameras), background=background)
    for i, camera in enumerate(cameras):
        torch.testing.assert_close(
            batch.rgb[i], rasterize_reference(gaussians, camera, background=background[i]).rgb
        )


def test_gradients(random_gaussians, toy_camera):
    gaussians = random_gaussians(7, seed=1, scale=0.3, dtype=D)
    camera, features = toy_camera(12, 9, off_centre=True, dtype=D), torch.rand(7, 2, dtype=D)
    background = torch.rand(3, dtype=D)
    frame = rasterize_reference(gaussians, camera, depth=True)
    keep = frame.margin > 1e-4
    assert keep.double().mean() > 0.9

    def render(world_to_cam, background, features, *parameters):
        frame = rasterize_reference(
            type(gaussians)(*parameters),
            replace(camera, world_to_cam=world_to_cam),
            background=background,
            depth=True,
            normals=True,
            features=features,
            antialiased=True,
        )
        return (
            frame.rgb[keep],
            frame.alpha[keep],
            frame.depth[keep],
            frame.normals[keep],
            frame.features[keep],
        )

    inputs = [camera.world_to_cam, background, features, *gaussians.tensors().values()]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    # Pairs of random directions instead of every number: the full Jacobian of the same function takes a minute.
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)


def test_capped_alpha_has_no_gradient(random_gaussians, toy_camera):
    gaussians = random_gaussians(1, dtype=D, scale=3.0)
    gaussians.means.zero_()
    gaussians.opacity_logits.fill_(9.0)
    gaussians.requires_grad_()
    frame = rasterize_reference(gaussians, toy_camera(8, 8, dtype=D), max_alpha=0.5)
    torch.testing.assert_close(frame.alpha, torch.full_like(frame.alpha, 0.5))
    assert torch.autograd.grad(frame.alpha.sum(), gaussians.opacity_logits)[0].item() == 0


def test_spherical_harmonics_are_orthonormal():
    """Sums over the sphere by a rule that is exact for these polynomials."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    angles = (np.arange(16) + 0.5) / 16 * 2 * np.pi
    ring = np.sqrt(1 - nodes**2)[:, None]
    z = np.broadcast_to(nodes[:, None], (8, 16))
    directions = torch.from_numpy(
        np.stack([ring * np.cos(angles), ring * np.sin(angles), z], -1).reshape(-1, 3)
    )
    weight = torch.from_numpy(np.repeat(weights, 16) * 2 * np.pi / 16)
    basis = sh_basis(directions, 3)
    gram = basis.T @ (basis * weight[:, None])
    torch.testing.assert_close(gram, torch.eye(16, dtype=D), atol=1e-12, rtol=0)


def test_spherical_harmonics_have_the_signs_of_scene_files():
    """Degree 1 is -y, z, -x; degree 2 starts with xy and ends with x^2 - y^2 (the order of 3DGS files)."""
    x, y, z = 2 / 7, 3 / 7, 6 / 7
    basis = sh_basis(torch.tensor([x, y, z], dtype=D), 3)
    expected = [
        0.28209479177387814,
        -0.4886025119029199 * y,
        0.4886025119029199 * z,
        -0.4886025119029199 * x,
        1.0925484305920792 * x * y,
        -1.0925484305920792 * y * z,
        0.31539156525252005 * (2 * z * z - x * x - y * y),
        -1.0925484305920792 * x * z,
        0.5462742152960396 * (x * x - y * y),
        -0.5900435899266435 * y * (3 * x * x - y * y),
        2.890611442640554 * x * y * z,
        -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
        0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
        -0.4570457994644658 * x * (4 * z * z - x * x - y * y),
        1.445305721320277 * z * (x * x - y * y),
        -0.5900435899266435 * x * (x * x - 3 * y * y),
    ]
    torch.testing.assert_close(basis, torch.tensor(expected, dtype=D), atol=1e-14, rtol=1e-14)


def test_tile_lists_hold_what_touches_and_nothing_else(random_gaussians, toy_camera):
    """Every splat that shows at a pixel centre of a tile is listed; one is left out only if it shows at none."""
    gaussians, camera = random_gaussians(60, seed=5, scale=0.25, dtype=D), toy_camera(70, 50, dtype=D)
    splats = project_gaussians_reference(gaussians, camera)
    instances, ranges = bin_splats_reference(splats, camera.width, camera.height)
    assert ranges.shape == (5 * 4, 2) and ranges[-1, 1] == instances.numel() and ranges[0, 0] == 0
    for tile, (start, end) in enumerate(ranges.tolist()):
        listed = instances[start:end]
        assert (splats.depth[listed].diff() >= 0).all()
        row, column = divmod(tile, 5)
        # Eight samples between neighbouring pixel centres: the ellipse may pass between pixels.
        along = torch.linspace(0.5, TILE - 0.5, (TILE - 1) * 8 + 1, dtype=D)
        y, x = torch.meshgrid(along + row * TILE, along + column * TILE, indexing="ij")
        dx, dy = x[..., None] - splats.mean2d[:, 0], y[..., None] - splats.mean2d[:, 1]
        a, b, c = splats.conic.T
        alpha = splats.opacity * (-(a * dx * dx + c * dy * dy) / 2 - b * dx * dy).exp()
        highest = alpha.amax((0, 1)) * 255
        touched = torch.zeros(len(highest), dtype=torch.bool)
        touched[listed] = True
        assert touched[highest >= 1].all()
        assert not touched[highest < 0.9].any()  # between samples alpha may reach a little higher
