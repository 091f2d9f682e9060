"""Coloured points: text files with a line ``x y z r g b`` for each, drawn as one pixel each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.scene import About, Draw, Layers, Scene, check_request
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.reading import reading
from luxel.scenes.loading.loader import Loader, LoadOptions, Writer

SUFFIX = ".points"


class ColouredPoints(NamedTuple):
    """Places [N, 3] and colours in [0, 1], [N, 3]."""

    xyz: Tensor
    rgb: Tensor


def points_scene(points: ColouredPoints) -> Scene:
    """Points as a scene, on their device."""
    about = About("points", ("colour", "alpha", "depth"))

    def draw(camera: Camera, drawn: Draw) -> Layers:
        check_request(about, drawn)
        return draw_points(points, camera, drawn)

    return Scene(
        about,
        points.xyz.device,
        lambda: {"count": len(points.xyz)},
        lambda: points.xyz,
        draw,
        lambda device: points_scene(ColouredPoints(*(tensor.to(device) for tensor in points))),
        {ColouredPoints: points},
    )


def draw_points(points: ColouredPoints, camera: Camera, drawn: Draw) -> Layers:
    """The nearest point of each pixel."""
    height, width = camera.height, camera.width
    pose = camera.world_to_cam
    x, y, z = (points.xyz @ pose[:3, :3].T + pose[:3, 3]).unbind(-1)
    fx, fy, cx, cy = camera.intrinsics.unbind()
    column, row = (fx * x / z + cx).floor(), (fy * y / z + cy).floor()
    seen = (z > camera.near) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    far_first = torch.argsort(z[seen], descending=True, stable=True)  # of equal pixels the last one stays
    pixels = (row * width + column)[seen].long()[far_first].cpu().numpy()
    nearest = dict(zip(pixels.tolist(), torch.nonzero(seen)[:, 0][far_first].tolist(), strict=True))
    at = torch.tensor(list(nearest), dtype=torch.long, device=z.device)
    which = torch.tensor(list(nearest.values()), dtype=torch.long, device=z.device)
    behind = z.new_zeros(3) if drawn.background is None else drawn.background
    colour = behind.repeat(height * width, 1)
    colour[at] = points.rgb[which]
    alpha, depth = z.new_zeros(height * width), z.new_zeros(height * width)
    alpha[at], depth[at] = 1.0, z[which]
    images = {
        "colour": colour.view(height, width, 3),
        "alpha": alpha.view(height, width),
        "depth": depth.view(height, width),
    }
    return Layers({name: images[name] for name in drawn.layers})


def load_points(path: Path, options: LoadOptions) -> Scene:
    """The points of a file."""
    with reading(path, "a file of points", "Write it again."):
        table = torch.from_numpy(np.loadtxt(path, dtype=np.float32, ndmin=2))
    return points_scene(
        ColouredPoints(table[:, :3].to(options.device), table[:, 3:6].to(options.device) / 255)
    )


def write_points(path: Path, points: ColouredPoints, options: Mapping[str, Any]) -> None:
    """Writes points as `load_points` reads them."""
    table = torch.cat([points.xyz, points.rgb * 255], -1).tolist()
    write_atomically(
        path, ["".join(f"{' '.join(f'{value:.9g}' for value in line)}\n" for line in table).encode()]
    )


LOADER = Loader(
    "a file of points",
    lambda path: path.suffix == SUFFIX,
    load_points,
    (Writer(ColouredPoints, lambda: (SUFFIX,), write_points),),
)
