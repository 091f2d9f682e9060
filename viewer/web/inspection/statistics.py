"""Histograms of primitives: opacity, size, shape, and how many a tile of the image has."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.ops.raster.blend_splats import BlendSettings
from luxel.render.primitives.parameters import Viewing
from luxel.render.raster.pipeline import bin_tiles, project
from luxel.render.raster.rasterize import DILATION, MAX_ALPHA
from luxel.viewer.web.numerals import number

BINS = 40
WIDTH, HEIGHT = 240, 64  # of a drawing, px


class Quantity(NamedTuple):
    """A number that every primitive has.

    Args:
        title: heading of its histogram, with the unit.
        values: (primitives) -> [N]; None where these primitives have no such number.
        logarithmic: whether bins are equally wide in the logarithm.
        limits: ends of the axis; None: the 0.1th and 99.9th percentile.
    """

    title: str
    values: Callable[[Any], Tensor | None]
    logarithmic: bool = False
    limits: tuple[float, float] | None = None


class Histogram(NamedTuple):
    """Numbers of values between edges.

    Args:
        title: with the unit.
        counts: values in each bin, those beyond the ends in the outermost ones, [B].
        edges: of the bins, ascending, [B + 1].
        median: of the finite values.
        total: finite values.
        broken: values that are not finite.
    """

    title: str
    counts: np.ndarray
    edges: np.ndarray
    median: float
    total: int
    broken: int


def _sizes(scene: Any) -> Tensor | None:
    scales = getattr(scene, "scales", None)
    return getattr(scene, "world_scale", None) if scales is None else scales[:, :3].amax(-1)


def _elongation(scene: Any) -> Tensor | None:
    scales = getattr(scene, "scales", None)
    return None if scales is None else scales[:, :3].amax(-1) / scales[:, :3].amin(-1)


# A new quantity is one entry.
QUANTITIES = (
    Quantity("Opacity", lambda scene: scene.opacities, limits=(0.0, 1.0)),
    Quantity("Largest standard deviation (capture units)", _sizes, logarithmic=True),
    Quantity("Longest to shortest axis (ratio)", _elongation, logarithmic=True),
    Quantity("Extent in time (time units)", lambda scene: _time_scales(scene), logarithmic=True),
)


def _time_scales(scene: Any) -> Tensor | None:
    log_scale_t = getattr(scene, "log_scale_t", None)
    return None if log_scale_t is None else log_scale_t.exp()


def histogram(
    values: Tensor, title: str, logarithmic: bool = False, limits: tuple[float, float] | None = None
) -> Histogram:
    """Counts values, [N], into `BINS` bins; with ``logarithmic`` those not above 0 count as not finite."""
    values = values.detach().float().flatten()
    finite = values[torch.isfinite(values) & (values > 0 if logarithmic else True)]
    broken = values.numel() - finite.numel()
    if finite.numel() == 0:
        return Histogram(title, np.zeros(BINS, int), np.linspace(0, 1, BINS + 1), math.nan, 0, broken)
    position = finite.log10() if logarithmic else finite
    low, high = limits or _ends(position)
    counts = torch.histc(position.clamp(low, high), BINS, low, high).long().cpu().numpy()
    edges = np.linspace(low, high, BINS + 1)
    return Histogram(
        title, counts, 10**edges if logarithmic else edges, float(finite.median()), finite.numel(), broken
    )


def _ends(values: Tensor, limit: int = 100_000) -> tuple[float, float]:
    """Range of an axis that leaves out a thousandth on either side, of every Nth value where there are many."""
    some = values[:: max(1, values.numel() // limit)]
    low, high = torch.quantile(some, some.new_tensor([0.001, 0.999])).tolist()
    return (low, high) if high - low > 1e-6 else (low - 0.5, high + 0.5)


def histograms(scene: Any) -> list[Histogram]:
    """The histograms of all quantities that the primitives have."""
    results = []
    for quantity in QUANTITIES:
        values = quantity.values(scene)
        if values is not None:
            results.append(histogram(values, quantity.title, quantity.logarithmic, quantity.limits))
    return results


def tile_lengths(scene: Any, camera: Camera, time: float = 0.0, antialiased: bool = False) -> Tensor:
    """How many primitives the rasterizer lists for each 16x16 tile of an image, int32 [T], row by row."""
    dtype, device = scene.opacity_logits.dtype, scene.device
    view = Viewing(
        world_to_cam=camera.world_to_cam[None].to(device, dtype),
        intrinsics=camera.intrinsics[None].to(device, dtype),
        times=torch.full((1,), time, dtype=dtype, device=device) if scene.moves else None,
        width=camera.width,
        height=camera.height,
        near=camera.near,
        far=camera.far,
        sh_degree=0,
        dilation=DILATION,
        antialiased=antialiased and scene.antialiases,
        with_depth=False,
        with_normals=False,
    )
    projected = project(scene, view)
    visible, instances = projected.totals.tolist()
    settings = BlendSettings(scene.policy, camera.width, camera.height, MAX_ALPHA, False, False)
    ranges = bin_tiles(projected, settings, visible_capacity=visible, capacity=instances).ranges
    return ranges[:, 1] - ranges[:, 0]


def as_svg(result: Histogram, colour: str = "#d67624") -> str:
    """A drawing of a histogram with its title, ends and median, as HTML; bars rise with the square root of counts."""
    heights = np.sqrt(result.counts / max(1, int(result.counts.max())))
    step = WIDTH / len(heights)
    bars = "".join(
        f"M{i * step:.1f} {HEIGHT}v{-h * (HEIGHT - 4):.1f}h{step - 1:.1f}V{HEIGHT}z"
        for i, h in enumerate(heights)
        if h > 0
    )
    left = int(np.searchsorted(result.edges, result.median, side="right")) - 1
    mark = (min(max(left, 0), len(heights) - 1) + 0.5) * step
    line = (
        f'<path d="M{mark:.1f} 0V{HEIGHT}" stroke="currentColor" stroke-dasharray="3 3"/>'
        if result.total
        else ""
    )
    note = f"median {number(result.median)}" if result.total else "no values"
    if result.broken:
        note += f"; {result.broken:,} not finite"
    return (
        '<div style="padding:0.3em 12px;font-size:13px;line-height:1.4">'
        f"<div>{html.escape(result.title)}</div>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(result.title)}" '
        'style="width:100%;display:block;border-bottom:1px solid currentColor">'
        f'<path d="{bars}" fill="{colour}"/>{line}</svg>'
        '<div style="display:flex;justify-content:space-between;color:var(--mantine-color-dimmed)">'
        f"<span>{number(result.edges[0])}</span><span>{note}</span><span>{number(result.edges[-1])}</span></div></div>"
    )
