"""Gradients of the reference of convexes: the published ones, finite differences, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from convex_scenes import D, axis_camera, facing, random_convexes, solid
from scipy.spatial import ConvexHull

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.reference.raster.blend_convexes import indicator
from luxel.render.reference.raster.project_convexes import hull2d
from luxel.render.reference.raster.rasterize_convexes import rasterize_convexes_reference


def published_gradients(convexes: Convexes, camera: Camera, g_alpha: np.ndarray) -> dict[str, np.ndarray]:
    """The backward pass as it was published, for one convex, pixel by pixel."""
    t = {name: tensor[0].numpy() for name, tensor in convexes.tensors().items()}
    rotation, translation = camera.world_to_cam.numpy()[:3, :3], camera.world_to_cam.numpy()[:3, 3]
    fx, fy, cx, cy = camera.intrinsics.numpy()
    local = t["points"] @ rotation.T + translation
    z = local[:, 2].mean()
    flat = np.stack([fx * local[:, 0] / local[:, 2] + cx, fy * local[:, 1] / local[:, 2] + cy], -1)
    ring = ConvexHull(flat).vertices
    delta, sigma = math.exp(t["log_delta"]), math.exp(t["log_sigma"])
    opacity = 1 / (1 + math.exp(-t["opacity_logits"]))
    soft = 1 / (1 + math.exp(-t["mask_logits"]))
    g_flat, g_delta, g_sigma, g_opacity, g_mask = np.zeros_like(flat), 0.0, 0.0, 0.0, 0.0
    for row, column in np.ndindex(g_alpha.shape):
        q = np.array([column + 0.5, row + 0.5])
        a, b = flat[ring], flat[np.roll(ring, -1)]
        value = (b[:, 1] - a[:, 1]) * (q[0] - a[:, 0]) - (b[:, 0] - a[:, 0]) * (q[1] - a[:, 1])
        top = (z * delta * value).max()
        weight = np.exp(z * delta * value - top)
        phi = top + math.log(weight.sum())
        share = weight / weight.sum()
        inside = 1 / (1 + math.exp(z * sigma * phi))
        if opacity * inside < 1 / 255:
            continue
        g_inside = g_alpha[row, column] * opacity
        g_opacity += g_alpha[row, column] * inside
        g_mask += g_alpha[row, column] * opacity * inside
        g_sigma += -z * phi * inside * (1 - inside) * g_inside
        g_phi = -z * sigma * inside * (1 - inside) * g_inside
        g_delta += z * (share * value).sum() * g_phi
        g = share * z * delta * g_phi
        for j in range(len(ring)):
            g_flat[ring[j]] += g[j] * np.array([q[1] - b[j, 1], b[j, 0] - q[0]])
            g_flat[ring[(j + 1) % len(ring)]] += g[j] * np.array([a[j, 1] - q[1], q[0] - a[j, 0]])
    g_local = np.stack(
        [
            g_flat[:, 0] * fx / local[:, 2],
            g_flat[:, 1] * fy / local[:, 2],
            -(g_flat[:, 0] * fx * local[:, 0] + g_flat[:, 1] * fy * local[:, 1]) / local[:, 2] ** 2,
        ],
        -1,
    )
    return {
        "points": g_local @ rotation,
        "log_delta": delta * g_delta,
        "log_sigma": sigma * g_sigma,
        "opacity_logits": opacity * (1 - opacity) * g_opacity,
        "mask_logits": soft * (1 - soft) * g_mask,
    }


@pytest.mark.parametrize(("seed", "k"), [(0, 3), (1, 4), (2, 6), (3, 6), (4, 8)])
def test_gradients_are_the_published_ones(toy_camera, seed, k):
    convexes = random_convexes(1, seed, k=k, sh_degree=0, size=0.7)
    camera = toy_camera(24, 20, off_centre=True, dtype=D)
    g_alpha = torch.randn(20, 24, generator=torch.Generator().manual_seed(seed), dtype=D)
    expected = published_gradients(convexes, camera, g_alpha.numpy())
    frame = rasterize_convexes_reference(convexes.requires_grad_(), camera)
    assert frame.alpha.max() < 0.99 and (frame.count > 0).double().mean() > 0.2
    (frame.alpha * g_alpha).sum().backward()
    for name, value in expected.items():
        actual = getattr(convexes, name).grad[0].numpy()
        np.testing.assert_allclose(actual, value, rtol=1e-10, atol=1e-12, err_msg=name)
    outside = int(frame.splats[0].edges[0])
    assert (convexes.points.grad[0].abs().amax(-1) > 0).sum() == outside  # the others lie within


def test_the_indicator_by_finite_differences():
    generator = torch.Generator().manual_seed(3)
    points = 10 * torch.rand(4, 6, 2, generator=generator, dtype=D)
    order, edges = hull2d(points)
    pixels = 12 * torch.rand(9, 2, generator=generator, dtype=D) - 1
    place = torch.arange(6)
    following = torch.where(place + 1 < edges[:, None], place + 1, 0)

    def inside(points, delta, sigma):
        a = points.gather(1, order[..., None].expand(-1, -1, 2))
        step = a.gather(1, following[..., None].expand(-1, -1, 2)) - a
        normals = torch.stack([step[..., 1], -step[..., 0]], -1)
        return indicator(pixels, a, normals, edges, delta, sigma)

    inputs = [points, torch.rand(4, dtype=D) * 0.1 + 0.05, torch.rand(4, dtype=D) + 0.3]
    inputs = [t.clone().requires_grad_() for t in inputs]
    assert 3 < edges.double().mean() < 6
    assert torch.autograd.gradcheck(inside, inputs, eps=1e-6, atol=1e-9, rtol=1e-7)


def test_gradients_of_all_parameters(toy_camera):
    """By finite differences along everything that leaves the depth of the centroids where it is."""
    convexes = random_convexes(2, seed=8, k=5, size=0.6)
    convexes.points.mul_(0.7)
    camera = toy_camera(7, 5, off_centre=True, dtype=D)
    background = torch.rand(3, dtype=D)
    forward = camera.world_to_cam[2, :3]
    probe = rasterize_convexes_reference(convexes, camera)
    keep = probe.margin > 1e-4
    assert keep.double().mean() > 0.9 and probe.count.max() == 2

    def render(points, log_delta, log_sigma, opacity_logits, sh_dc, sh_rest):
        moved = points - convexes.points
        moved = moved - (moved.mean(1, keepdim=True) @ forward)[..., None] * forward
        given = Convexes(
            convexes.points + moved,
            log_delta,
            log_sigma,
            opacity_logits,
            sh_dc,
            sh_rest,
            convexes.mask_logits,
        )
        frame = rasterize_convexes_reference(given, camera, background=background, depth=True)
        return frame.rgb[keep], frame.depth[keep]

    inputs = [tensor for name, tensor in convexes.tensors().items() if name != "mask_logits"]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(render, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)


def test_points_within_learn_from_the_colour_only(toy_camera):
    """The direction to the centroid gives all points the same gradient; the polygon gives none to those within."""
    ring = torch.tensor(
        [[-1, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1], [0.1, 0.3, 0], [0.2, -0.2, 0.1]], dtype=D
    )
    convexes = random_convexes(1, sh_degree=1)
    convexes.points.copy_(0.5 * ring)
    convexes.requires_grad_()
    camera = toy_camera(20, 20, dtype=D)
    frame = rasterize_convexes_reference(convexes, camera)
    assert frame.splats[0].edges.tolist() == [4]
    g_points = torch.autograd.grad(frame.rgb.sum(), convexes.points, retain_graph=True)[0][0]
    torch.testing.assert_close(g_points[4], g_points[5])
    assert g_points[4].abs().max() > 0 and not torch.allclose(g_points[0], g_points[4])
    g_alpha = torch.autograd.grad(frame.alpha.sum(), convexes.points)[0][0]
    assert not g_alpha[4:].any() and g_alpha[:4].any()


def test_a_moved_camera_is_a_moved_scene(toy_camera):
    """Gradients by the translation of the camera are those of all points, in the camera's axes."""
    convexes, camera = random_convexes(6, seed=2), toy_camera(16, 12, off_centre=True, dtype=D)
    convexes.requires_grad_()
    camera.world_to_cam.requires_grad_()
    rasterize_convexes_reference(convexes, camera).rgb.square().sum().backward()
    rotation = camera.world_to_cam.detach()[:3, :3]
    g_points = convexes.points.grad.sum((0, 1))
    torch.testing.assert_close(camera.world_to_cam.grad[:3, 3], rotation @ g_points)


def test_masks_pass_the_gradient_of_the_sigmoid(toy_camera):
    convexes, camera = random_convexes(2, sh_degree=0, size=0.8), toy_camera(16, 12, dtype=D)
    threshold = math.log(0.01 / 0.99)
    convexes.mask_logits.copy_(torch.tensor([threshold + 1e-6, threshold - 1e-6], dtype=D))
    convexes.requires_grad_()
    assert convexes.masks.tolist() == [1, 0]
    frame = rasterize_convexes_reference(convexes, camera)
    assert frame.splats[0].index.tolist() == [0]
    frame.alpha.sum().backward()
    soft = 0.01 * 0.99  # slope of the sigmoid at the threshold
    slope = soft * frame.alpha.sum().item()
    torch.testing.assert_close(
        convexes.mask_logits.grad, torch.tensor([slope, 0], dtype=D), rtol=1e-4, atol=0
    )


def test_capped_alpha_has_no_gradient():
    convexes = solid(facing(5.0, half=10.0), torch.ones(1, 3)).requires_grad_()
    frame = rasterize_convexes_reference(convexes, axis_camera(8, 8, 8.0), max_alpha=0.5)
    torch.testing.assert_close(frame.alpha, torch.full_like(frame.alpha, 0.5))
    assert torch.autograd.grad(frame.alpha.sum(), convexes.opacity_logits)[0].item() == 0
