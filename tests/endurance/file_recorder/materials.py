"""Writes what the recorded commands begin with: a capture, label maps of it, images with poses but without points.

A file of its own: it runs with the interpreter whose luxel is meant. ``python materials.py FOLDER``
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image

VIEWS = 8
POSED_VIEWS = 12


def write_materials(folder: Path) -> None:
    """Writes FOLDER/capture, FOLDER/masks and FOLDER/posed."""
    import torch

    from luxel.render.raster.rasterize import rasterize
    from luxel.scenes.synthetic.toy import ring_cameras, torus_knot, write_toy_capture

    torch.set_num_threads(1)
    write_toy_capture(
        folder / "capture",
        lambda gaussians, camera: rasterize(gaussians, camera).rgb.numpy(),
        gaussians=torus_knot(150),
        cameras=ring_cameras(VIEWS, width=32, height=24),
    )
    masks = folder / "masks"
    masks.mkdir()
    for image in (folder / "capture" / "images").iterdir():
        labels = np.zeros((24, 32), np.uint8)
        labels[8:16, 8:24] = 1
        Image.fromarray(labels).save(masks / f"{image.stem}.png")
    write_posed(folder / "posed")


def write_posed(folder: Path) -> None:
    """The packaged capture, cut to some views and without its points, which are found when it is opened."""
    import luxel.scenes

    package = Path(luxel.scenes.__path__[0]) / "data" / "tankard-tiny"
    scene = json.loads((package / "transforms.json").read_text())
    scene.pop("ply_file_path", None)
    scene["frames"] = scene["frames"][:POSED_VIEWS]
    (folder / "images").mkdir(parents=True)
    for frame in scene["frames"]:
        frame.pop("mask_path", None)
        shutil.copy(package / frame["file_path"], folder / frame["file_path"])
    (folder / "transforms.json").write_text(json.dumps(scene))


if __name__ == "__main__":
    write_materials(Path(sys.argv[1]))
