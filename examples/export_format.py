"""A new scene format: Gaussians as a text file of points, which `save_scene` and `luxel export` then write.

A format is a `SceneFormat`: a suffix, and a function that saves, loads, or both. Run:

    python examples/export_format.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from luxel import scenes
from luxel.render.primitives import Gaussians
from luxel.render.primitives.gaussians import SH_C0
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.synthetic.toy import torus_knot


def save_xyz(path: Path, scene: Gaussians, opaque: bool = False) -> None:
    """One line per Gaussian: x y z of its centre, r g b in [0, 255] of SH degree 0, and opacity in [0, 1].

    Args:
        path: the file.
        scene: N Gaussians.
        opaque: leave out Gaussians of an opacity below 0.5.
    """
    rgb = (255 * (0.5 + SH_C0 * scene.sh_dc)).round().clamp(0, 255)
    opacity = torch.sigmoid(scene.opacity_logits)[:, None]
    table = torch.cat([scene.means, rgb, opacity], dim=1).detach().cpu()
    if opaque:
        table = table[table[:, 6] >= 0.5]
    lines = (" ".join(f"{value:g}" for value in row) + "\n" for row in table.tolist())
    write_atomically(path, (line.encode() for line in lines))


XYZ = scenes.SceneFormat(
    ".xyz", "centres, colours and opacities", save=save_xyz, primitives=(Gaussians,), options=("opaque",)
)


def main() -> None:
    scenes.register_scene_format(XYZ)  # the one line
    knot = torus_knot(200)
    print("formats of Gaussians:", ", ".join(known.suffix for known in scenes.formats_for(knot)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "knot.xyz"
        scenes.save_scene(path, knot, opaque=True)
        lines = path.read_text().splitlines()
        print(f"{len(lines)} points, the first: {lines[0]}")


if __name__ == "__main__":
    main()
