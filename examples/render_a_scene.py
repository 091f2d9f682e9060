"""Renders synthetic Gaussians, differentiates the image, and writes a scene file that any viewer opens.

python examples/render_a_scene.py [FOLDER]      writes knot.png, depth.png and knot.ply into FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image

from luxel.render.geometry.camera import Camera
from luxel.render.raster.rasterize import rasterize
from luxel.scenes import load_scene, save_scene
from luxel.scenes.synthetic.toy import as_bytes, torus_knot


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    knot = torus_knot(2000).requires_grad_()  # 2,000 Gaussians: means, quats, log_scales, opacity_logits, SH
    camera = Camera.look_at(eye=(0, -4, 1.5), target=(0, 0, 0), width=320, height=240)

    frame = rasterize(knot, camera, background=torch.ones(3), depth=True)
    assert frame.depth is not None
    Image.fromarray(as_bytes(frame.rgb.detach().numpy())).save(folder / "knot.png")
    Image.fromarray(as_bytes((frame.depth / frame.depth.max()).detach().numpy())).save(folder / "depth.png")

    # Every parameter has a gradient, and so have the background and the camera pose.
    (1 - frame.rgb).mean().backward()
    print(f"gradient by the centres: {list(knot.means.grad.shape)}, norm {knot.means.grad.norm():.3g}")

    save_scene(folder / "knot.ply", knot.detach())
    print(f"{load_scene(folder / 'knot.ply').count} Gaussians in {folder / 'knot.ply'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
