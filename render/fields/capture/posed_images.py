"""Posed images for a radiance field: pixels as bytes on the device, their cameras, the box of the scene, and scores."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Points, View, near_views
from luxel.render.geometry.lens import require_pinhole
from luxel.render.metrics.image_metrics import affine_fit, psnr, ssim

Box = tuple[float, float, float, float, float, float]

BLENDER_BOX: Box = (-1.5, -1.5, -1.5, 1.5, 1.5, 1.5)
BLENDER_DISTANCE = 4.0311  # of the cameras of NeRF's synthetic scenes from the centre of the scene
READERS = 8  # threads that read images


@dataclass
class PosedImages:
    """Images with cameras that a radiance field is trained and scored on.

    Attributes:
        views: to train on.
        held_out: views to score it on; if empty, some of the training views.
        points: of the scene, or None.
        box: low x, y, z, high x, y, z of the part of the scene that is rendered; None: `box_of`, with the points only
            if the images are opaque.
        background: behind images with alpha when scores are computed, in [0, 1].
        random_background: composite training images with alpha on random colours instead, so that nothing opaque is
            mistaken for background.
    """

    views: Sequence[View]
    held_out: Sequence[View] = field(default_factory=tuple)
    points: Points | None = None
    box: Box | None = None
    background: tuple[float, float, float] = (1.0, 1.0, 1.0)
    random_background: bool = True


class DeviceImages(NamedTuple):
    """All training images on a device.

    Attributes:
        pixels: straight colours, one image after the other, uint8 [P, 3] or with alpha [P, 4].
        candidates: indices of the pixels with a weight above 0, int64 [M]; None: all.
        table: index of the first pixel and width of each image, int64 [V, 2].
        world_to_cam, intrinsics: float32 [V, 4, 4], [V, 4].
        near: smallest near plane of the cameras, world units.
    """

    pixels: Tensor
    candidates: Tensor | None
    table: Tensor
    world_to_cam: Tensor
    intrinsics: Tensor
    near: float

    @staticmethod
    def read(views: Sequence[View], device: torch.device) -> DeviceImages:
        """Reads the images and copies them to the device.

        Raises:
            LuxelError: there are none, or one has another size than its camera says.
        """
        if not views:
            raise LuxelError("A radiance field needs images, there are none.", "Give a capture with views.")
        with ThreadPoolExecutor(min(READERS, os.cpu_count() or 1)) as pool:
            read = list(pool.map(read_view, views))
        channels = 4 if any(rgb.shape[1] == 4 for rgb, _ in read) else 3
        sizes = [len(rgb) for rgb, _ in read]
        pixels = torch.empty(sum(sizes), channels, dtype=torch.uint8, device=device)
        parts: list[Tensor] = []
        firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        for (rgb, weight), first in zip(read, firsts.tolist(), strict=True):
            rows = pixels[first : first + len(rgb)]
            rows[:, : rgb.shape[1]] = rgb.to(device)
            rows[:, rgb.shape[1] :] = 255
            parts.append(first + torch.arange(len(rgb)) if weight is None else first + weight.nonzero()[:, 0])
        counting = sum(len(part) for part in parts)
        if counting == 0:
            raise LuxelError(
                f"The masks leave no pixel of {len(views)} images ({views[0].name} ...).",
                "Check the masks, or train without them (--masks none).",
            )
        cameras = [view.camera for view in views]
        for camera in cameras:
            require_pinhole(camera, "Radiance fields")
        return DeviceImages(
            pixels,
            torch.cat(parts).to(device) if counting < len(pixels) else None,
            torch.tensor([[int(a), c.width] for a, c in zip(firsts, cameras, strict=True)]).to(device),
            torch.stack([c.world_to_cam for c in cameras]).float().to(device),
            torch.stack([c.intrinsics for c in cameras]).float().to(device),
            min(c.near for c in cameras),
        )


def views_of(pixels: Tensor, table: Tensor) -> Tensor:
    """Number of the image of each pixel, int64 [R]; of negative numbers, which are of none, 0.

    Args:
        pixels: numbers over the images of all views, int64 [R].
        table: of `DeviceImages`.
    """
    return torch.searchsorted(table[:, 0].contiguous(), pixels.clamp_min(0), right=True) - 1


def read_view(view: View) -> tuple[Tensor, Tensor | None]:
    """The pixels of a view, uint8 [H W, 3], or [H W, 4] with alpha, and their weights uint8 [H W] or None.

    Raises:
        LuxelError: they have another size than its camera says.
    """
    pixels = view.read()
    height, width = view.camera.height, view.camera.width
    expected = {"rgb": (height, width, 3), "alpha": (height, width), "weight": (height, width)}
    for name, shape in expected.items():
        array = getattr(pixels, name)
        if array is not None and (array.shape != shape or array.dtype != np.uint8):
            raise LuxelError(
                f"{view.path or view.name}: {name} is {array.dtype} {list(array.shape)}, "
                f"its camera says uint8 {list(shape)}.",
                "All images must have the size that the capture states for them.",
            )
    parts = [pixels.rgb.reshape(-1, 3)]
    if pixels.alpha is not None:
        parts.append(pixels.alpha.reshape(-1, 1))
    weight = None if pixels.weight is None else torch.from_numpy(pixels.weight.reshape(-1).copy())
    return torch.from_numpy(np.concatenate(parts, 1)), weight


def target_of(view: View, background: Tensor) -> tuple[Tensor, Tensor | None]:
    """The image of a view on a background [3], float32 [H, W, 3], and its weights [H, W] or None."""
    rows, weight = read_view(view)
    shape = view.camera.height, view.camera.width
    rgb = rows[:, :3].to(background.device).float() / 255
    if rows.shape[1] == 4:
        alpha = rows[:, 3:].to(background.device).float() / 255
        rgb = alpha * rgb + (1 - alpha) * background
    weights = None if weight is None else weight.to(background.device).float().view(shape)
    return rgb.view(*shape, 3), weights


def mean_scores(
    layers: Callable[[Camera, Tensor], tuple[Tensor, Tensor, Tensor]],
    views: Sequence[View],
    background: Tensor,
    aligned: bool = False,
) -> dict[str, float]:
    """Means over views with a pixel that counts: "psnr" (dB) and "ssim" of renders as they are; NaN without such views.

    Args:
        layers: colours [H, W, 3], alpha [H, W] and depth of a camera on a background.
        views: one or more.
        background: of images with alpha, [3].
        aligned: also "psnr_aligned", after the affine transform of each render's colours that brings it nearest to its
            image: without differences of exposure and white balance.
    """
    scores: list[dict[str, float]] = []
    for view in views:
        if not view.read().counts:
            continue
        target, weight = target_of(view, background)
        colours, alpha, _ = layers(view.camera.to(background.device), background)
        image = colours.clamp(0, 1)
        score = {"psnr": psnr(image, target, weight), "ssim": ssim(image, target, weight)}
        if aligned:
            transparent = read_view(view)[0].shape[1] == 4
            fitted = affine_fit(image, target, weight, (1 - alpha, background) if transparent else None)
            score["psnr_aligned"] = psnr(fitted, target, weight)
        scores.append(score)
    if not scores:
        return dict.fromkeys(("psnr", "ssim", "psnr_aligned") if aligned else ("psnr", "ssim"), math.nan)
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}


def box_of(views: Sequence[View], points: Points | None = None) -> Box:
    """A cube around what the cameras look at.

    With points: around 98 % of them along each axis, and a tenth more. Without: around the point nearest to all optical
    axes, in the proportion to the distance of the cameras that [-1.5, 1.5]^3 has in NeRF's synthetic scenes; exactly
    [-1.5, 1.5]^3 if the cameras are placed as there.
    """
    if points is not None and len(points.xyz):
        low, high = np.percentile(points.xyz.astype(float), [1, 99], axis=0)
        middle, half = (low + high) / 2, 0.55 * float((high - low).max())
    else:
        views = near_views(views)
        eyes = np.stack([view.camera.position.double().numpy() for view in views])
        ahead = np.stack([view.camera.world_to_cam[2, :3].double().numpy() for view in views])
        across = np.eye(3) - ahead[:, :, None] * ahead[:, None, :]
        middle = np.linalg.lstsq(across.sum(0), (across @ eyes[:, :, None]).sum(0), rcond=None)[0][:, 0]
        distance = float(np.linalg.norm(eyes - middle, axis=1).mean())
        if abs(distance - BLENDER_DISTANCE) < 0.3 and np.linalg.norm(middle) < 0.3:
            return BLENDER_BOX
        half = 1.5 / BLENDER_DISTANCE * distance
    half = max(half, 1e-6)
    low, high = (middle - half).tolist(), (middle + half).tolist()
    return (low[0], low[1], low[2], high[0], high[1], high[2])
