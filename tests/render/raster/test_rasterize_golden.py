"""Golden images: toy scenes against PNGs that the float64 reference drew once.

LUXEL_DRAW_GOLDENS=1 draws them anew (look at them before you keep them). A failure leaves image, reference and
difference in build/goldens/<scene>/, and names that folder.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import SH_C0, Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.rasterize import rasterize_reference

GOLDEN = Path(__file__).parents[1] / "golden"
EVIDENCE = Path(__file__).resolve().parents[3] / "build" / "goldens"


def gaussians_of(means, quats, scales, opacities, colors, sh_rest=None) -> Gaussians:
    means, opacities = torch.as_tensor(means).float(), torch.as_tensor(opacities).float()
    n = means.shape[0]
    return Gaussians(
        means,
        torch.as_tensor(quats).float().expand(n, 4).clone(),
        torch.as_tensor(scales).float().log().expand(n, 3).clone(),
        torch.logit(opacities).expand(n).clone(),
        (torch.as_tensor(colors).float() - 0.5) / SH_C0,
        torch.zeros(n, 0, 3) if sh_rest is None else sh_rest,
    )


def three_ellipsoids():
    """Red, green and blue ellipsoids that overlap, on a grey background."""
    quats = [[1.0, 0, 0, 0], [0.9, 0.2, 0.3, 0.1], [0.7, 0, 0.7, 0.2]]
    scales = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.2, 0.7], [0.3, 0.3, 0.5]])
    scene = gaussians_of(
        [[-0.4, 0, 0], [0.2, 0.3, 0.2], [0.5, -0.5, -0.2]], quats, scales, [0.9, 0.7, 0.95], torch.eye(3)
    )
    return (
        scene,
        Camera.look_at((0, -4, 1), (0, 0, 0), width=97, height=71),
        {"background": torch.full((3,), 0.5)},
    )


def helix(view_dependent: bool = True):
    """A helix of 240 small Gaussians whose colour turns with the direction of view."""
    t = torch.linspace(0, 1, 240, dtype=torch.float64)
    angle = 6 * math.pi * t
    means = torch.stack([angle.cos(), angle.sin(), 2 * t - 1], -1)
    quats = torch.stack([(angle / 2).cos(), 0 * t, 0 * t, (angle / 2).sin()], -1)
    colors = torch.stack([t, 1 - t, 0.5 + 0.5 * (8 * t).sin()], -1)
    rest = (
        0.3 * torch.sin(torch.arange(240 * 45).reshape(240, 15, 3) * 0.7).float() if view_dependent else None
    )
    scene = gaussians_of(means, quats, torch.tensor([0.05, 0.12, 0.03]), torch.tensor(0.8), colors, rest)
    return (
        scene,
        Camera.look_at((2.2, -3, 1.6), (0, 0, 0), width=120, height=90),
        {"background": torch.ones(3)},
    )


def far_dust():
    """A grid of points far smaller than a pixel, antialiased, seen by an off-centre camera."""
    x, y = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
    means = torch.stack([x, 0.3 * (3 * x).sin() * (2 * y).cos(), y], -1).reshape(-1, 3)
    colors = means * torch.tensor([0.5, 1.0, 0.5]) + 0.5
    scene = gaussians_of(means, [1.0, 0, 0, 0], torch.tensor(0.025), torch.tensor(0.97), colors)
    camera = Camera.look_at((1, -6, 0.5), (0, 0, 0), width=80, height=80)
    camera = replace(camera, intrinsics=camera.intrinsics * torch.tensor([1.2, 1.0, 0.8, 1.1]))
    return scene, camera, {"antialiased": True}


SCENES = {
    "three_ellipsoids": (three_ellipsoids, "rgb"),
    "three_ellipsoids_alpha": (three_ellipsoids, "alpha"),
    "three_ellipsoids_normals": (three_ellipsoids, "normals"),
    "helix": (helix, "rgb"),
    "helix_depth": (helix, "depth"),
    "helix_median_depth": (helix, "median_depth"),
    "far_dust": (far_dust, "rgb"),
}


def to_bytes(frame, output: str) -> np.ndarray:
    """An output as an 8-bit image: normals from [-1, 1], depth from 0..6 units."""
    image = getattr(frame, output).detach().cpu().double()
    if output == "normals":
        image = (image + 1) / 2
    if "depth" in output:
        image = image / 6
    return (image.clamp(0, 1) * 255).round().byte().numpy()


@pytest.mark.parametrize("name", SCENES)
def test_golden(name, device):
    build, output = SCENES[name]
    scene, camera, options = build()
    options = {**options, "depth": "depth" in output, "normals": output == "normals"}
    path = GOLDEN / f"{name}.png"
    if os.environ.get("LUXEL_DRAW_GOLDENS"):
        frame = rasterize_reference(scene.to(torch.float64), camera, **options)
        Image.fromarray(to_bytes(frame, output)).save(path, optimize=True)
    on_device = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    image = to_bytes(rasterize(scene.to(device), camera.to(device), **on_device), output)
    golden = np.asarray(Image.open(path))
    assert image.shape == golden.shape
    difference = np.abs(image.astype(int) - golden)
    # One step is rounding; a pixel on a jump (alpha cut-off, median) may differ by more, but there are few.
    wrong = (difference > 1).mean()
    if wrong > 1e-3:
        folder = EVIDENCE / f"{name}-{device.type}"
        folder.mkdir(parents=True, exist_ok=True)
        shown = (difference * 255 // max(1, difference.max())).astype(np.uint8)
        for file, pixels in {"image": image, "reference": golden, "difference": shown}.items():
            Image.fromarray(pixels).save(folder / f"{file}.png")
        pytest.fail(f"{name}: {wrong:.2%} of the values differ, by up to {difference.max()}; see {folder}")
