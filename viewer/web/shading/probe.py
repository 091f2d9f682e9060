"""What lies at one pixel: the primitives that contribute to it, and the surface around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.probe import probe
from luxel.render.primitives.gaussians import SH_C0

MIN_ALPHA = 1 / 255  # smaller alphas are skipped, as by the rasterizer
MIN_TRANSMITTANCE = 1e-4  # a pixel ends before its transmittance would fall to this
MAX_ALPHA = 0.99  # of one primitive
SURFACE_DEPTHS = 0.05  # relative difference of depth up to which neighbouring pixels belong to one surface


@dataclass(frozen=True)
class Contributor:
    """A primitive that contributes to a pixel.

    Args:
        index: row of the scene's parameters.
        weight: share of the pixel's colour that is its: transmittance in front of it times alpha.
        alpha: its own at the pixel.
        details: label and text of its parameters.
    """

    index: int
    weight: float
    alpha: float
    details: tuple[tuple[str, str], ...] = ()


def contributors(
    scene: Any, frame: Any, column: int, row: int, most: int = 3
) -> tuple[int, tuple[Contributor, ...]] | None:
    """The primitives that contribute to a pixel, by their weights; see Kerbl et al. 2023, equation 3.

    Args:
        scene: primitives.
        frame: of one camera, by luxel's rasterizer.
        column, row: the pixel.
        most: how many to describe.

    Returns:
        How many contribute, and those with the largest weights, strongest first. None where that is not available: the
        scene has no primitives, or another renderer has drawn it.
    """
    policy = getattr(scene, "policy", None)
    splats, tile_counts = getattr(frame, "splats", None), getattr(frame, "tile_counts", None)
    if policy is None or splats is None or tile_counts is None:
        return None
    visible = torch.nonzero(tile_counts.reshape(-1) > 0)[:, 0]
    rows = splats.reshape(-1, splats.shape[-1])[visible]
    alpha = probe(rows, column + 0.5, row + 0.5, primitive=policy).clamp_max(MAX_ALPHA)
    hit = torch.nonzero(alpha >= MIN_ALPHA)[:, 0]
    hit = hit[torch.argsort(rows[hit, 3], stable=True)]
    alpha = alpha[hit].double()
    behind = torch.cumprod(1 - alpha, 0)
    weight = alpha * torch.cat([behind.new_ones(1), behind])[:-1]
    counted = behind >= MIN_TRANSMITTANCE
    weight = torch.where(counted, weight, 0.0)
    best = torch.argsort(weight, descending=True)[: min(most, int(counted.sum()))]
    indices = visible[hit[best]].tolist()
    strongest = zip(indices, weight[best].tolist(), alpha[best].tolist(), strict=True)
    return int(counted.sum()), tuple(Contributor(i, w, a, details(scene, i)) for i, w, a in strongest)


# Label, and attribute of primitives that have it.
DETAILS = (
    ("opacity", "opacities"),
    ("scales", "scales"),
    ("size", "world_scale"),
    ("smoothness", "deltas"),
    ("sharpness", "sigmas"),
    ("centre", "centres"),
)


def details(scene: Any, index: int) -> tuple[tuple[str, str], ...]:
    """Label and text of the parameters of one primitive."""
    one = scene.select(torch.tensor([index], device=scene.device))
    shown = []
    for label, name in DETAILS:
        values = getattr(one, name, None)
        if isinstance(values, Tensor):
            shown.append((label, ", ".join(f"{value:.3g}" for value in values.flatten().tolist())))
    if isinstance(getattr(one, "sh_dc", None), Tensor):
        rgb = (0.5 + SH_C0 * one.sh_dc[0]).clamp(0, 1).mul(255).round().int().tolist()
        shown.append(("base colour", "rgb({}, {}, {})".format(*rgb)))
    return tuple(shown)


def surface_normal(
    depth: Tensor, alpha: Tensor, camera: Camera, column: int, row: int
) -> tuple[float, float, float] | None:
    """Unit normal of the plane through the points around a pixel, world coordinates, towards the camera.

    Args:
        depth: along the optical axis, [H, W], 0 where there is none.
        alpha: coverage, [H, W].
        camera: of the image.
        column, row: the pixel.

    Returns:
        None where fewer than six neighbouring pixels show the same surface.
    """
    height, width = depth.shape
    half = max(3, min(width, height) // 60)
    rows = slice(max(0, row - half), row + half + 1)
    columns = slice(max(0, column - half), column + half + 1)
    z, here = depth[rows, columns].double().cpu(), float(depth[row, column])
    near = (alpha[rows, columns].cpu() >= 0.5) & (z > 0) & ((z - here).abs() <= SURFACE_DEPTHS * here)
    if int(near.sum()) < 6:
        return None
    fx, fy, cx, cy = camera.intrinsics.double().cpu().tolist()
    v, u = torch.meshgrid(
        torch.arange(rows.start, rows.start + z.shape[0]).double() + 0.5,
        torch.arange(columns.start, columns.start + z.shape[1]).double() + 0.5,
        indexing="ij",
    )
    positions = torch.stack([(u - cx) / fx * z, (v - cy) / fy * z, z], -1)[near]
    centred = positions - positions.mean(0)
    normal = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, 0]
    if float(normal @ positions.mean(0)) > 0:
        normal = -normal
    x, y, z_ = (camera.cam_to_world[:3, :3].detach().double().cpu() @ normal).tolist()
    return x, y, z_
