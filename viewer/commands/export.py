"""`luxel export`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.scenes import Capture, convex_hulls, save_mesh, save_moments, save_safetensors, save_scene
from luxel.scenes.files.field_mesh import save_field_mesh
from luxel.scenes.files.hull_mesh import MIN_OPACITY
from luxel.scenes.files.scene_files import WRITTEN
from luxel.viewer.commands.options import DeviceName, optional, pick_device
from luxel.viewer.progress import opening
from luxel.viewer.runs import load_drawable, load_origin, times_of

FINE = 256  # cells along the box of a neural field
MESHES = (".ply", ".obj")
MOMENT = re.compile(r"frame-\d{5,}\.ply")


@dataclass
class Export:
    """Writes a scene in another format, as a mesh, or as a sequence of static scenes.

    SCENE is the folder of a run, or a .ply, .splat or .safetensors file. The suffix of --out chooses the format. Every
    primitive can be written as .ply (Gaussians in the layout of 3DGS, which other viewers read) and .safetensors;
    .splat holds Gaussians without view-dependent colour. --mesh writes the hulls of convexes, or the surface of a
    neural field, as a triangle mesh. --frames writes a dynamic scene as a folder of static .ply scenes, --time as one.

    Examples:
        luxel export runs/first --out scene.splat
        luxel export runs/first --out small.safetensors --half
        luxel export runs/convexes --out mesh.obj --mesh
        luxel export runs/knot --out knot.ply --mesh --resolution 512
        luxel export runs/moving --out frames/ --frames 30 --times 0 0.5
        luxel export runs/moving --out still.ply --time 0.25
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a .ply, .splat or .safetensors file."""
    out: Annotated[Path, tyro.conf.arg(metavar="PATH")]
    """File to write, in the format of its suffix; with --frames a folder."""
    half: bool = False
    """Write .safetensors in float16, about half as large; positions and times stay float32."""
    mesh: bool = False
    """Write a triangle mesh with vertex colours (.ply or .obj): hulls of convexes, or the surface of a neural field."""
    resolution: Annotated[int | None, optional("N")] = None
    """With --mesh of a neural field: cells along the longest side of its box, 8 to 1024; default: 256."""
    level: Annotated[float | None, optional("DENSITY")] = None
    """With --mesh of a field with density: density at the surface, per side of its box; default: 50, of volumes 10."""
    device: DeviceName = "auto"
    """Device that evaluates a neural field; auto: the GPU if luxel can use it, else the CPU."""
    min_opacity: Annotated[float | None, optional("OPACITY")] = None
    """With --mesh of convexes: leave out those of lower opacity, in [0, 1); default: 0.1."""
    frames: Annotated[int | None, optional("N")] = None
    """Dynamic scenes: write N times as frame-00000.ply, ... into the folder --out."""
    times: Annotated[tuple[float, float] | None, optional("START END")] = None
    """With --frames: first and last time; default: the range of the capture."""
    time: Annotated[float | None, optional("TIME")] = None
    """Dynamic scenes: write this time as static Gaussians."""
    force: bool = False
    """Replace existing files."""

    def execute(self) -> int:
        """Reads and writes; returns the exit status."""
        self._check_options()
        scene = load_drawable(self.scene)
        if isinstance(scene, Application):
            return self._write_field(scene)
        if self.resolution is not None or self.level is not None:
            raise LuxelError(
                f"{self.scene}: --resolution and --level are for neural fields, not for {scene.noun}.",
                "Leave them out.",
            )
        self._check_primitive(scene)
        self._check_place()
        if self.frames is not None:
            assert isinstance(scene, Gaussians4d)
            return self._write_moments(scene, self.frames)
        if self.mesh:
            assert isinstance(scene, Convexes)
            return self._write_mesh(scene)
        if self.time is not None:
            assert isinstance(scene, Gaussians4d)
            scene = scene.at(self.time)
        if self.half:
            save_safetensors(self.out, scene, half=True)
        else:
            save_scene(self.out, scene)
        print(f"{scene.count:,} {scene.noun}: {self.out} ({_size(self.out)})")
        return 0

    def _write_field(self, field: Application) -> int:
        if not self.mesh or self.min_opacity is not None:
            raise LuxelError(
                f"{self.scene}: a neural field can only be exported as a mesh of its surface.",
                "Give --mesh and an --out that ends in .ply or .obj, and no options of primitives.",
            )
        self._check_place()
        sizes = FINE if self.resolution is None else self.resolution, self.level
        found = save_field_mesh(self.out, field.to(pick_device(self.device)), *sizes)
        print(f"{len(found.faces):,} triangles: {self.out} ({_size(self.out)})")
        return 0

    def _write_mesh(self, scene: Convexes) -> int:
        found = convex_hulls(scene, MIN_OPACITY if self.min_opacity is None else self.min_opacity)
        save_mesh(self.out, found.mesh)
        left_out = f"{found.faint:,} faint or masked and {found.degenerate:,} flat convexes were left out"
        print(
            f"{found.hulls:,} hulls of {len(found.mesh.faces):,} triangles: {self.out} ({_size(self.out)}); {left_out}"
        )
        return 0

    def _write_moments(self, scene: Gaussians4d, frames: int) -> int:
        start, end = self.times or self._range(scene)
        written = save_moments(self.out, scene, np.linspace(start, end, frames).tolist())
        kept = {path.name for path in written}
        for old in self.out.iterdir():  # of an earlier export with more frames
            if MOMENT.fullmatch(old.name) and old.name not in kept:
                old.unlink()
        print(f"{len(written)} times from {start:g} to {end:g}: {self.out}")
        return 0

    def _range(self, scene: Gaussians4d) -> tuple[float, float]:
        """First and last time of the run's capture, or of the scene itself."""
        found = times_of(scene, self._capture if (self.scene / "config.json").is_file() else None)
        assert found is not None
        return found

    def _capture(self) -> Capture:
        with opening("opening the capture") as on_progress:
            return load_origin(self.scene).open(on_progress)

    def _check_options(self) -> None:
        """Refuses options that exclude each other or are out of range, whatever the scene holds."""
        suffix = self.out.suffix.lower()
        times = [t for t in (self.time, *(self.times or ())) if t is not None]
        wrong = [
            (
                self.mesh and (self.frames is not None or self.time is not None),
                "--mesh cannot be combined with --frames or --time.",
            ),
            (
                self.frames is not None and self.time is not None,
                "--frames and --time exclude each other.",
            ),
            (self.times is not None and self.frames is None, "--times needs --frames N."),
            (self.frames is not None and not 1 <= self.frames <= 99_999, "--frames must be from 1 to 99999."),
            (
                not np.isfinite(times).all(),
                "--time and --times must be finite numbers.",
            ),
            (self.min_opacity is not None and not self.mesh, "--min-opacity needs --mesh."),
            (
                (self.resolution is not None or self.level is not None) and not self.mesh,
                "--resolution and --level need --mesh.",
            ),
            (
                self.min_opacity is not None and not 0 <= self.min_opacity < 1,
                "--min-opacity must be at least 0 and less than 1.",
            ),
            (
                self.half and (suffix != ".safetensors" or self.mesh or self.frames is not None),
                "--half is for .safetensors files.",
            ),
            (
                self.frames is not None and suffix in (*WRITTEN, *MESHES),
                f"--frames writes a folder, and {self.out} names a file.",
            ),
            (
                self.mesh and suffix not in MESHES,
                f"{self.out}: a mesh is written as {' or '.join(MESHES)}.",
            ),
            (
                suffix == ".obj" and not self.mesh,
                f"{self.out}: .obj holds a mesh, which needs --mesh.",
            ),
            (
                self.frames is None and not self.mesh and suffix not in WRITTEN,
                f"{self.out}: {self.out.suffix or 'a name without suffix'} is not a format that luxel writes "
                f"({', '.join(WRITTEN)}; .obj with --mesh; a folder with --frames).",
            ),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise LuxelError(
                    f"luxel export: {message}", "Correct that option; see `luxel export --help`."
                )

    def _check_primitive(self, scene: Parameters) -> None:
        """Refuses options that the scene's primitive does not support."""
        if self.mesh and not isinstance(scene, Convexes):
            raise LuxelError(
                f"{self.scene}: --mesh is for convexes and neural fields, and this scene is made of {scene.noun}.",
                "Leave it out.",
            )
        if (self.frames is not None or self.time is not None) and not scene.moves:
            raise LuxelError(
                f"{self.scene}: --frames and --time are for dynamic scenes, and this scene of {scene.noun} is static.",
                "Leave them out.",
            )
        if self.out.suffix.lower() == ".splat" and self.time is None and not isinstance(scene, Gaussians):
            remedy = "Write one time of it with --time T, or write" if scene.moves else "Write"
            raise LuxelError(
                f"{self.out}: .splat holds Gaussians, and this scene is made of {scene.noun}.",
                f"{remedy} .ply or .safetensors.",
            )

    def _check_place(self) -> None:
        """Refuses to replace files without --force, a folder by a file, or a file by a folder."""
        if self.frames is not None and self.out.exists() and not self.out.is_dir():
            raise LuxelError(
                f"{self.out}: this is a file, and --frames writes a folder.", "Give another --out."
            )
        if self.frames is None and self.out.is_dir():
            raise LuxelError(f"{self.out}: this is a folder.", "Give the name of a file with --out.")
        if not self.force and (any(self.out.iterdir()) if self.out.is_dir() else self.out.exists()):
            raise LuxelError(
                f"{self.out}: already exists.", "Give another --out, or replace it with --force."
            )


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
