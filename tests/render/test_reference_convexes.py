"""The reference of convexes: against a loop over pixels, the published gradients, and finite differences."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial import ConvexHull, HalfspaceIntersection

from luxel.render.camera import Camera
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import SH_C0
from luxel.render.reference.bin_convexes import bin_convexes_reference
from luxel.render.reference.bin_splats import TILE
from luxel.render.reference.blend_convexes import indicator
from luxel.render.reference.project_convexes import hull2d, project_convexes_reference
from luxel.render.reference.rasterize_convexes import rasterize_convexes_reference
from luxel.render.reference.sh import sh_basis

D = torch.float64
GOLDEN = Path(__file__).parent / "golden" / "convex_cube.png"


def random_convexes(n: int, seed: int = 0, *, k: int = 6, sh_degree: int = 1, size: float = 0.4) -> Convexes:
    """Convexes around the origin, soft enough that most pixels see a slope; some masks are off."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return Convexes(
        points=0.7 * normal(n, 1, 3) + size * normal(n, k, 3),
        log_delta=math.log(0.05) + 0.5 * normal(n),
        log_sigma=math.log(0.05) + 0.5 * normal(n),
        opacity_logits=1 + normal(n),
        sh_dc=0.8 * normal(n, 3),
        sh_rest=0.2 * normal(n, (sh_degree + 1) ** 2 - 1, 3),
        mask_logits=torch.where(torch.arange(n) % 5 == 3, -5.0, 1.0) + 0.1 * normal(n),
    ).to(D)


def solid(points: torch.Tensor, colors: torch.Tensor, delta: float = 0.3, sigma: float = 0.3) -> Convexes:
    """Nearly opaque convexes of one colour each with hard boundaries."""
    n = points.shape[0]
    return Convexes(
        points=points,
        log_delta=torch.full((n,), math.log(delta)),
        log_sigma=torch.full((n,), math.log(sigma)),
        opacity_logits=torch.full((n,), 8.0),
        sh_dc=(colors - 0.5) / SH_C0,
        sh_rest=torch.zeros(n, 0, 3),
        mask_logits=torch.ones(n),
    ).to(D)


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


# --- hulls on the screen


def corners(points) -> list[tuple[float, float]]:
    given = torch.tensor(points, dtype=D)
    order, edges = hull2d(given[None])
    assert edges[0] == len(points) or (order[0, edges[0] :] == order[0, 0]).all()
    return [tuple(given[i].tolist()) for i in order[0, : edges[0]].tolist()]


def test_hulls_of_random_points_are_those_of_qhull():
    points = torch.randn(300, 8, 2, generator=torch.Generator().manual_seed(0), dtype=D)
    order, edges = hull2d(points)
    for i in range(300):
        wanted = ConvexHull(points[i].numpy()).vertices.tolist()
        found = order[i, : edges[i]].tolist()
        start = wanted.index(found[0])
        assert found == wanted[start:] + wanted[:start]


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


# --- gradients


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
    wanted = published_gradients(convexes, camera, g_alpha.numpy())
    frame = rasterize_convexes_reference(convexes.requires_grad_(), camera)
    assert frame.alpha.max() < 0.99 and (frame.count > 0).double().mean() > 0.2
    (frame.alpha * g_alpha).sum().backward()
    for name, value in wanted.items():
        found = getattr(convexes, name).grad[0].numpy()
        np.testing.assert_allclose(found, value, rtol=1e-10, atol=1e-12, err_msg=name)
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


# --- what is drawn where


def facing(depth: float, half: float = 1.0) -> torch.Tensor:
    """A square that faces a camera at the origin, [1, 4, 3]."""
    return torch.tensor(
        [[[-half, -half, depth], [half, -half, depth], [half, half, depth], [-half, half, depth]]]
    )


def axis_camera(width: int = 64, height: int = 64, focal: float = 64.0) -> Camera:
    """At the origin, looking along z."""
    intrinsics = torch.tensor([focal, focal, width / 2, height / 2])
    return Camera(torch.eye(4), intrinsics, width, height).to(D)


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


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda c: c.points[..., 2].fill_(0.21), True),
        (lambda c: c.points[..., 2].fill_(0.19), False),  # nearer than 0.2
        (lambda c: c.points[0, 0, 2].fill_(-0.5), False),  # one point is behind the camera
        (lambda c: c.points[0, 0].copy_(torch.tensor([156.0, 0, 1])), True),  # 0.75 * 64 * 156 / 1 px aside
        (lambda c: c.points[0, 0].copy_(torch.tensor([260.0, 0, 1])), False),  # beyond 10,000 px
        (lambda c: c.points[0, :, 1].copy_(c.points[0, :, 0]), False),  # in line
        (lambda c: c.points[0, 2:].copy_(c.points[0, 1]), False),  # two places
        (lambda c: c.points[..., 0].add_(100), False),  # beside the image
        (lambda c: c.opacity_logits.fill_(-5.54), False),  # under 1/255
        (lambda c: c.mask_logits.fill_(-4.6), False),  # sigmoid under 0.01
        (lambda c: c.points[0, 1, 1].fill_(math.nan), False),
        (lambda c: c.log_delta.fill_(math.nan), False),
        (lambda c: c.log_sigma.fill_(math.inf), False),
        (lambda c: c.sh_dc.fill_(math.inf), False),
        (lambda c: c.mask_logits.fill_(math.nan), False),
    ],
)
def test_what_is_dropped_has_gradients_of_zero(change, kept):
    convexes = Convexes.cat(solid(facing(5.0), torch.ones(1, 3)), solid(facing(3.0), torch.ones(1, 3)))
    first = convexes.select(torch.tensor([0]))
    change(first)
    convexes = Convexes.cat(first, convexes.select(torch.tensor([1]))).requires_grad_()
    camera = axis_camera()
    assert project_convexes_reference(convexes, camera).index.tolist() == ([0, 1] if kept else [1])
    rasterize_convexes_reference(convexes, camera).rgb.sum().backward()
    for name, tensor in convexes.tensors().items():
        assert tensor.grad.isfinite().all(), name
        assert kept or not tensor.grad[0].any(), name


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
    from luxel.render.reference import rasterize_convexes as module

    blend = module.blend_convexes_reference
    monkeypatch.setattr(module, "blend_convexes_reference", lambda *a, **k: blend(*a, **k, chunk=3))
    small = rasterize_convexes_reference(convexes, Camera.stack(cameras), background=background)
    torch.testing.assert_close(small.rgb, batch.rgb, rtol=1e-12, atol=1e-12)
    assert torch.equal(small.count, batch.count)


def test_float32_is_near_float64(toy_camera):
    convexes, camera = random_convexes(60, seed=7, sh_degree=3), toy_camera(64, 64, off_centre=True, dtype=D)
    wanted = rasterize_convexes_reference(convexes, camera)
    found = rasterize_convexes_reference(convexes.to(torch.float32), camera.to(torch.float32))
    assert wanted.splats[0].margin.min() > 1e-4 and found.rgb.dtype == torch.float32
    keep = wanted.margin > 1e-3
    assert keep.double().mean() > 0.9
    torch.testing.assert_close(found.rgb.double()[keep], wanted.rgb[keep], atol=1e-4, rtol=0)


def test_no_convexes_at_all(toy_camera):
    background = torch.tensor([0.1, 0.2, 0.3], dtype=D)
    empty = Convexes.empty(5).to(D)
    frame = rasterize_convexes_reference(empty, toy_camera(20, 17, dtype=D), background=background)
    torch.testing.assert_close(frame.rgb, background.expand(17, 20, 3))
    assert empty.points_each == 5 and not frame.alpha.any()


# --- a cube

SIGNS = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)


def cube_faces() -> Convexes:
    """The six faces of the cube [-1, 1]^3, each in a colour of its own."""
    faces = [SIGNS[SIGNS[:, axis] == side] for axis in range(3) for side in (-1, 1)]
    colors = torch.tensor(
        [[0.5, 0.1, 0.1], [0.9, 0.3, 0.2], [0.1, 0.5, 0.1], [0.3, 0.9, 0.2], [0.1, 0.1, 0.5]]
    )
    return solid(torch.stack(faces), torch.cat([colors, torch.tensor([[0.2, 0.3, 0.9]])]))


def traced_cube(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """The same cube by rays: number of the face that is seen at each pixel, -1 for none, and how near an edge is."""
    fx, fy, cx, cy = camera.intrinsics.numpy()
    rotation, eye = camera.world_to_cam.numpy()[:3, :3], camera.position.numpy()
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    local = np.stack([(columns - cx) / fx, (rows - cy) / fy, np.ones_like(rows)], -1)
    direction = local @ rotation
    with np.errstate(divide="ignore"):
        near = (-np.sign(direction) - eye) / direction
        far = (np.sign(direction) - eye) / direction
    enter, leave = near.max(-1), far.min(-1)
    axis = near.argmax(-1)
    side = np.take_along_axis(direction, axis[..., None], -1)[..., 0] < 0
    return np.where(enter < leave, 2 * axis + side, -1), np.sort(near, -1)[..., 2] - np.sort(near, -1)[..., 1]


def cube_camera() -> Camera:
    return Camera.look_at((2.5, -4, 2.2), (0, 0, 0), width=96, height=80).to(D)


def test_a_cube_of_convexes_looks_like_a_cube():
    """Each pixel away from edges shows the face that a ray hits; LUXEL_DRAW_GOLDENS=1 writes the picture."""
    cube, camera = cube_faces(), cube_camera()
    frame = rasterize_convexes_reference(cube, camera, background=torch.ones(3, dtype=D))
    face, _ = traced_cube(camera)
    colors = np.concatenate([0.5 + SH_C0 * cube.sh_dc.numpy(), np.ones((1, 3))])
    edge = np.zeros_like(face, dtype=bool)
    for shift in range(1, 3):
        for direction in (0, 1):
            for sign in (-1, 1):
                edge |= np.roll(face, sign * shift, direction) != face
    assert sorted(np.unique(face)) == [-1, 1, 2, 5] and edge.mean() < 0.25
    np.testing.assert_allclose(frame.rgb.numpy()[~edge], colors[face][~edge], atol=0.02)
    pixels = (frame.rgb.clamp(0, 1) * 255).round().byte().numpy()
    if os.environ.get("LUXEL_DRAW_GOLDENS"):
        Image.fromarray(pixels).save(GOLDEN, optimize=True)
    golden = np.asarray(Image.open(GOLDEN)).astype(int)
    assert np.abs(golden - pixels).max() <= 1


def test_one_convex_has_the_outline_of_a_cube():
    cube = solid(SIGNS[None], torch.tensor([[0.9, 0.3, 0.2]]))
    camera = cube_camera()
    frame = rasterize_convexes_reference(cube, camera)
    assert frame.splats[0].edges.tolist() == [6]
    hit = traced_cube(camera)[0] >= 0
    assert ((frame.alpha.numpy() > 0.5) == hit).mean() > 0.995
