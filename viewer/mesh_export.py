"""Meshes of scenes, for `luxel export --mesh`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.scene_surface import scene_surface
from luxel.render.train.resume import read_config
from luxel.scenes import save_mesh
from luxel.scenes.files.field_mesh import save_field_mesh
from luxel.scenes.files.mesh import Mesh
from luxel.viewer.origin import load_origin
from luxel.viewer.progress import opening
from luxel.viewer.runs import has_capture

CELLS_OF_FIELD = 256  # along the box of a neural field
SPACINGS = {"cuda": 512, "cpu": 256}  # along what the cameras see of a scene


def write_field(out: Path, field: Application, resolution: int | None, level: float | None) -> str:
    """Writes the surface of a neural field; returns what was written, in words."""
    mesh = save_field_mesh(out, field, resolution or CELLS_OF_FIELD, level)
    return f"{len(mesh.faces):,} triangles"


def write_hulls(out: Path, scene: Parameters, min_opacity: float | None) -> tuple[str, str]:
    """Writes primitives that have a shape of triangles; returns what was written and what was left out, in words."""
    to_mesh = PRIMITIVES[scene.primitive].to_mesh
    assert to_mesh is not None
    made = to_mesh(scene, min_opacity)
    save_mesh(out, Mesh(made.xyz, made.rgb, made.faces))
    left_out = " and ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
    return f"{made.parts:,} {scene.noun} as {len(made.faces):,} triangles", f"{left_out} {scene.noun}"


def write_surface(
    run: Path, out: Path, scene: Parameters, device: torch.device, resolution: int | None
) -> str:
    """Writes the surface that the photographs' cameras see of a scene; returns what was written, in words.

    Args:
        run: folder of the run, of whose capture the cameras are.
        out: file to write.
        scene: all or some of its primitives, static.
        device: that renders and fuses.
        resolution: see `scene_surface`; None: 512, or 256 without a GPU.

    Raises:
        LuxelError: the run has no cameras, or as `scene_surface`.
    """
    if not has_capture(run):
        raise LuxelError(
            f"{run}: a mesh of {scene.noun} needs the cameras that they were trained from.",
            "Give the folder of a run that was trained on a capture.",
        )
    cells = resolution or SPACINGS[device.type]
    render = {"antialiased": read_config(run)[0].antialiased} if scene.antialiases else {}
    with opening("opening the capture") as on_progress:
        capture = load_origin(run).open(on_progress)
        cameras = [view.camera for view in (*capture.train, *capture.test)]
        surface = scene_surface(
            scene.to(device), cameras, cells, on_progress=on_progress, say=print, **render
        )
    mesh, colours = surface
    rgb = (colours.clamp(0, 1) * 255).round().to(torch.uint8)
    save_mesh(out, Mesh(_array(mesh.vertices), _array(rgb), _array(mesh.faces)))
    return f"{len(mesh.faces):,} triangles from {len(cameras)} cameras"


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
