"""What the formats of scene files lose: a scene is written in each, read back and compared, as a Markdown table.

    python tests/bench/files/format_losses.py [SCENE] [--size 320x240] [--cameras 4] [--others FILE ...]

SCENE is a file of Gaussians; default: a made-up knot of 2,000 with view-dependent colour. Columns are the largest
differences, of `rest` the root mean square; rotations are compared as orientations of the ellipsoid. Gaussians that a
format reorders are matched by their positions. PSNR compares renders of the file with renders of the scene. Files that
other programs wrote of the same scene follow.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians.parameters import quat_to_matrix
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import load_scene, save_scene
from luxel.scenes.files.registry import SCENE_FORMATS, format_of
from luxel.scenes.files.scene_format import SceneFormat
from luxel.scenes.paths import orbit
from luxel.scenes.synthetic.toy import torus_knot
from luxel.viewer.web.navigate import find_extent

COLUMNS = ("position", "log scale", "rotation (degrees)", "alpha", "dc", "rest (RMS)", "PSNR (dB)")
VARIANTS: dict[str, list[Any]] = {"half": [None, True], "version": [3, 4]}  # values of options of writers


@dataclass
class Losses:
    """Differences of a scene that was read back from the one that was written; NaN: there are none to compare."""

    position: float
    log_scale: float
    rotation: float
    alpha: float
    dc: float
    rest: float

    def cells(self) -> list[str]:
        values = (self.position, self.log_scale, self.rotation, self.alpha, self.dc, self.rest)
        return ["–" if math.isnan(value) else "0" if value < 1e-9 else f"{value:.2g}" for value in values]


def made_up(count: int = 2000) -> Gaussians:
    """A knot with opacities of all sizes and colours that change smoothly with direction and place."""
    knot = torus_knot(count, sh_degree=3)
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(6, 45, generator=generator) * 0.12
    smooth = torch.cat([knot.means, knot.means.square()], 1) @ weights
    knot.sh_rest = (0.35 * smooth.tanh()).reshape(count, 15, 3)
    knot.opacity_logits = torch.rand(count, generator=generator) * 9 - 3
    return knot


def matched(source: Gaussians, back: Gaussians) -> torch.Tensor:
    """The row of ``back`` that is nearest to each row of ``source``, [N]; itself where the order was kept."""
    from scipy.spatial import KDTree

    span = float(source.means.abs().amax()) + 1e-12
    if source.count == back.count and float((source.means - back.means).abs().max()) < 1e-3 * span:
        return torch.arange(source.count)
    _, rows = KDTree(back.means.numpy()).query(source.means.numpy(), workers=1)
    if len(np.unique(rows)) < source.count:
        print(f"{source.count - len(np.unique(rows))} Gaussians share their nearest neighbour")
    return torch.from_numpy(rows)


def angles(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The turn between orientations of ellipsoids with quaternions [N, 4], degrees; their axes have no signs."""
    turn = quat_to_matrix(a.double()).transpose(1, 2) @ quat_to_matrix(b.double())
    turn = turn * turn.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    chord = (turn - torch.eye(3, dtype=turn.dtype)).flatten(1).norm(dim=1)
    return torch.rad2deg(2 * torch.asin((chord / math.sqrt(8)).clamp(max=1)))


def losses(source: Gaussians, back: Gaussians) -> Losses:
    rows = matched(source, back)
    back = back.select(rows)
    kept = min(source.sh_rest.shape[1], back.sh_rest.shape[1])

    def most(a: torch.Tensor, b: torch.Tensor) -> float:
        return float((a - b).abs().max())

    rest = (source.sh_rest[:, :kept] - back.sh_rest[:, :kept]).square().mean().sqrt() if kept else math.nan
    return Losses(
        most(source.means, back.means),
        most(source.log_scales, back.log_scales),
        float(angles(source.quats, back.quats).max()),
        most(source.opacities, back.opacities),
        most(source.sh_dc, back.sh_dc),
        float(rest),
    )


def images(scene: Gaussians, cameras: list[Camera]) -> torch.Tensor:
    with torch.no_grad():
        return torch.stack([rasterize(scene, camera).rgb.clamp(0, 1) for camera in cameras])


def variants(known: SceneFormat) -> Iterator[dict[str, Any]]:
    """The options to write a format with, one set a row of the table."""
    options = [name for name in known.options if name in VARIANTS]
    if not options:
        yield {}
    for name in options:
        for value in VARIANTS[name]:
            yield {} if value is None else {name: value}


def table(source: Gaussians, cameras: list[Camera], others: Sequence[Path] = ()) -> str:
    lines = [
        f"| format | bytes per Gaussian | {' | '.join(COLUMNS)} |",
        f"|---|---:|{'---:|' * len(COLUMNS)}",
    ]
    expected = images(source, cameras)

    def add(name: str, size: float, back: Gaussians | None) -> None:
        cells = ["–"] * len(COLUMNS)
        if back is not None:
            error = float((images(back, cameras) - expected).square().mean())
            psnr = "exact" if error == 0 else f"{-10 * math.log10(error):.1f}"
            cells = [*losses(source, back).cells(), psnr]
        lines.append(f"| {name} | {size / source.count:.1f} | {' | '.join(cells)} |")

    for known in SCENE_FORMATS:
        if known.save is None or not known.stores(source):
            continue
        for options in variants(known):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / (f"scene{known.suffix}" if known.suffix[0] == "." else known.suffix)
                save_scene(path, source, **options)
                size = sum(file.stat().st_size for file in Path(folder).rglob("*"))
                back = load_scene(path) if format_of(path) is not None else None
            said = ", ".join(name if v is True else f"{name} {v}" for name, v in options.items())
            add(f"`{known.suffix}`" + (f" ({said})" if said else ""), size, back)
    for path in others:
        add(path.name, path.stat().st_size, load_scene(path))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("scene", nargs="?", type=Path, help="file of Gaussians; default: a made-up knot")
    parser.add_argument("--size", default="320x240", help="of the renders, WIDTHxHEIGHT pixels")
    parser.add_argument("--cameras", type=int, default=4, help="on a circle around the scene")
    parser.add_argument(
        "--others", nargs="+", type=Path, default=[], metavar="FILE", help="by other programs, of this scene"
    )
    options = parser.parse_args()
    source = load_scene(options.scene) if options.scene else made_up()
    width, height = map(int, options.size.split("x"))
    extent = find_extent([], source)
    cameras = orbit(
        extent.centre,
        extent.radius,
        up=extent.up,
        elevation=0.35,
        frames=options.cameras,
        width=width,
        height=height,
    )
    print(table(source, cameras, options.others))


if __name__ == "__main__":
    main()
