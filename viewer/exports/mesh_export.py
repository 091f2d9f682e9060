"""Meshes of scenes, for `luxel export --mesh`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.geometry.camera import Camera
from luxel.render.mesh.decimation import decimated
from luxel.render.mesh.depth_fusion import FusedSurface
from luxel.render.mesh.triangles import TriangleMesh
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.runs.folder.run_config import has_config
from luxel.render.surfaces.scene_surface import Finish, FinishedSurface, finished_surface
from luxel.render.train.resume import read_config
from luxel.scenes import save_mesh
from luxel.scenes.files.meshes.field_mesh import field_mesh
from luxel.scenes.files.meshes.mesh import Mesh, Texture
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.run_results import has_capture
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.exports.mesh_options import MeshFinish
from luxel.viewer.progress import opening
from luxel.viewer.scene_loading.capture_options import Origin, load_origin
from luxel.viewer.scene_loading.learned_views import refined_views
from luxel.viewer.scene_loading.scene_facts import as_shift, as_up

CELLS_OF_FIELD = 256  # along the box of a neural field
TEXTURED_TRIANGLES = 50_000  # unless their number is given: charts are found on the CPU
SPACINGS = {"cuda": 512, "cpu": 256}  # along what the cameras see of a scene


def write_field(
    out: Path,
    field: Application,
    resolution: int | None,
    level: float | None,
    finish: MeshFinish,
    coordinates: Coordinates,
    facts: SceneFacts,
    *,
    world: bool = False,
) -> str:
    """Writes the surface of a neural field, perhaps with fewer triangles; returns what was written, in words.

    Args:
        out: file to write.
        field: whose surface it is.
        resolution: cells along its box; None: `CELLS_OF_FIELD`.
        level: density at the surface; None: that of the field.
        finish: what is done with the surface.
        coordinates: of the file.
        facts: of the scene.
        world: write the coordinates of the world, see `in_world`.
    """
    mesh = field_mesh(field, resolution or CELLS_OF_FIELD, level)
    if finish.triangles is not None:
        tensors = TriangleMesh(torch.from_numpy(mesh.xyz), torch.from_numpy(mesh.faces))
        fewer = decimated(FusedSurface(tensors, torch.from_numpy(mesh.rgb) / 255), finish.triangles)
        mesh = _as_mesh(FinishedSurface(*fewer), SceneFacts())
    mesh.facts = replace(facts, antialiased=None)
    save_mesh(out, in_world(mesh) if world else coordinates.moved(mesh))
    return f"{len(mesh.faces):,} triangles"


def write_hulls(
    out: Path,
    scene: Parameters,
    min_opacity: float | None,
    facts: SceneFacts,
    coordinates: Coordinates,
    *,
    world: bool = False,
) -> tuple[str, str]:
    """Writes primitives that have a shape of triangles; returns what was written and what was left out, in words.

    Args:
        out: file to write.
        scene: primitives.
        min_opacity: of those that are written; None: the primitive's own.
        facts: of the scene.
        coordinates: of the file.
        world: write the coordinates of the world, see `in_world`.
    """
    to_mesh = PRIMITIVES[scene.primitive].engine.to_mesh
    assert to_mesh is not None
    made = to_mesh(scene, min_opacity)
    mesh = Mesh(made.xyz, made.rgb, made.faces, facts=replace(facts, antialiased=None))
    save_mesh(out, in_world(mesh) if world else coordinates.moved(mesh))
    left_out = " and ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
    return f"{made.parts:,} {scene.noun} as {len(made.faces):,} triangles", f"{left_out} {scene.noun}"


def write_surface(
    run: Path,
    out: Path,
    scene: Parameters,
    device: torch.device,
    resolution: int | None,
    finish: MeshFinish,
    capture_path: Path | None,
    coordinates: Coordinates,
    facts: SceneFacts,
    *,
    world: bool = False,
) -> str:
    """Writes the surface that the images' cameras see of a scene; returns what was written, in words.

    Args:
        run: folder of the run, of whose capture the cameras are; or a scene file.
        out: file to write.
        scene: all or some of its primitives, static.
        device: that renders and fuses.
        resolution: see `finished_surface`; None: 512, or 256 without a GPU.
        finish: what is done with the surface.
        capture_path: of the capture, instead of the one that the run names; a scene file names none.
        coordinates: of the file.
        facts: of the scene; where it has no up direction, that of the capture is written.
        world: write the coordinates of the world, see `in_world`.

    Raises:
        LuxelError: the run has no cameras, or as `finished_surface`.
    """
    if capture_path is None and not has_capture(run):
        raise LuxelError(
            f"{run}: a mesh of {scene.noun} needs the cameras that they were trained from.",
            "Give the folder of a run that was trained on a capture.",
        )
    triangles = finish.triangles or (TEXTURED_TRIANGLES if finish.texture else None)
    render: dict[str, Any] = {}
    if scene.antialiases:  # of a scene file with --capture there is no configuration
        known = read_config(run)[0].antialiased if has_config(run) else facts.antialiased
        render["antialiased"] = bool(known)
    with opening("opening the capture") as on_progress:
        if has_config(run):
            capture = load_origin(run, capture_path).open(on_progress)
            views = refined_views(run, capture)
        else:
            capture = Origin(str(capture_path), shift=facts.shift or (0.0, 0.0, 0.0)).open(on_progress)
            views = capture.train
        cameras = [view.camera for view in (*views, *capture.test)]
        mesh = seen_surface(
            scene.to(device),
            cameras,
            resolution,
            Finish(finish.fill_holes, triangles, finish.texture),
            on_progress=on_progress,
            say=print,
            **render,
        )
    mesh.facts = SceneFacts(
        up=facts.up or as_up(capture.up), metres=facts.metres, shift=as_shift(capture.shift)
    )
    save_mesh(out, in_world(mesh) if world else coordinates.moved(mesh))
    return f"{len(mesh.faces):,} triangles from {len(cameras)} cameras"


def seen_surface(
    scene: Parameters,
    cameras: Sequence[Camera],
    resolution: int | None = None,
    finish: Finish | None = None,
    **options: Any,
) -> Mesh:
    """The surface that cameras see of a scene, as files have it, without facts.

    Args:
        scene: static primitives, on the device of all work.
        cameras: from which it is rendered.
        resolution: see `finished_surface`; None: 512, or 256 without a GPU.
        finish, options: see `finished_surface`.

    Raises:
        LuxelError: as `finished_surface`.
    """
    cells = resolution or SPACINGS[scene.device.type]
    return _as_mesh(finished_surface(scene, cameras, cells, finish, **options), SceneFacts())


def in_world(mesh: Mesh) -> Mesh:
    """The mesh with the coordinates of the world, in float64; as it is where nothing was subtracted from them."""
    if mesh.facts.shift is None:
        return mesh
    xyz = mesh.xyz.astype(np.float64) + np.array(mesh.facts.shift)
    return replace(mesh, xyz=xyz, facts=replace(mesh.facts, shift=None))


def _as_mesh(surface: FinishedSurface, facts: SceneFacts) -> Mesh:
    """A surface as files have it."""
    texture = None
    if surface.image is not None and surface.uv is not None:
        texture = Texture(_array(surface.uv), _array(_as_bytes(surface.image)))
    mesh, colours = surface.mesh, _array(_as_bytes(surface.colours))
    return Mesh(_array(mesh.vertices), colours, _array(mesh.faces), texture, facts)


def _as_bytes(rgb: torch.Tensor) -> torch.Tensor:
    return (rgb.clamp(0, 1) * 255).round().to(torch.uint8)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
