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
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.scenes import Capture, save_mesh, save_scene, save_time_slices
from luxel.scenes.files.field_mesh import save_field_mesh
from luxel.scenes.files.formats import find_format, formats_for, writable_suffixes
from luxel.scenes.files.mesh import Mesh
from luxel.scenes.files.mesh_files import writable_mesh_suffixes
from luxel.viewer.commands.options import DeviceName, pick_device
from luxel.viewer.progress import opening
from luxel.viewer.runs import load_drawable, load_origin, times_of

FINE = 256  # cells along the box of a neural field
MOMENT = re.compile(r"frame-\d{5,}\.ply")


@dataclass
class Export:
    """Writes a scene in another format: for other viewers, smaller, as a mesh, or moment by moment.

    SCENE is the folder of a run, or a .ply, .splat or .safetensors file. The suffix of --out says what is written.
    Any primitive fits into .ply (Gaussians as other viewers read them) and .safetensors; .splat holds Gaussians
    without their view dependence. Convexes become a triangle mesh with --mesh, as do neural fields: those of signed
    distances, and those of radiance and volumes where their density has a --level. A scene that moves becomes a folder
    of ordinary .ply scenes with --frames, or one still scene with --time.

    Examples:
        luxel export runs/first --out scene.splat
        luxel export runs/first --out small.safetensors --half
        luxel export runs/convexes --out mesh.obj --mesh
        luxel export runs/knot --out knot.ply --mesh --resolution 512
        luxel export runs/moving --out moments/ --frames 30 --times 0 0.5
        luxel export runs/moving --out still.ply --time 0.25
    """

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a .ply, .splat or .safetensors file."""
    out: Annotated[Path, tyro.conf.arg(metavar="PATH")]
    """File to write, its suffix the format; with --frames a folder."""
    half: bool = False
    """.safetensors in float16, about half as large; places and times stay float32."""
    mesh: bool = False
    """Convexes as a mesh of their hulls, or the surface of a neural field, .ply or .obj with vertex colours."""
    resolution: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """With --mesh, of a neural field: cells along its box, 8 to 1024 (default: 256)."""
    level: Annotated[float | None, tyro.conf.arg(metavar="DENSITY")] = None
    """With --mesh, of a radiance field or a volume: density at the surface, per longest side of its box (default: 50,
    of a volume 10)."""
    device: DeviceName = "auto"
    """Where a neural field is evaluated; auto: the GPU where luxel can use it."""
    min_opacity: float | None = None
    """With --mesh: leave convexes out that are less opaque (default: 0.1)."""
    frames: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Of a scene that moves: N moments as frame-00000.ply, ... in the folder --out."""
    times: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="START END")] = None
    """With --frames: first and last moment; default: the whole range of the capture."""
    time: float | None = None
    """Of a scene that moves: this one moment as ordinary Gaussians."""
    force: bool = False
    """Replace what is there."""

    def execute(self) -> int:
        """Reads and writes; returns the exit status."""
        self._check_options()
        scene = load_drawable(self.scene)
        if isinstance(scene, Application):
            return self._write_field(scene)
        if self.resolution is not None or self.level is not None:
            raise LuxelError(
                f"{self.scene}: --resolution and --level are of neural fields, and this scene is of {scene.noun}.",
                "Leave them out.",
            )
        self._check_primitive(scene)
        self._check_place()
        if self.frames is not None:
            return self._write_moments(scene, self.frames)
        if self.mesh:
            return self._write_mesh(scene)
        if self.time is not None:
            scene = scene.at(self.time)
        save_scene(self.out, scene, half=self.half)
        print(f"{scene.count:,} {scene.noun}: {self.out} ({_size(self.out)})")
        return 0

    def _write_field(self, field: Application) -> int:
        if not self.mesh or self.min_opacity is not None:
            raise LuxelError(
                f"{self.scene}: a neural field is exported as a mesh of its surface.",
                "Give --mesh and a name in .ply or .obj with --out, and no option of primitives.",
            )
        self._check_place()
        sizes = FINE if self.resolution is None else self.resolution, self.level
        found = save_field_mesh(self.out, field.to(pick_device(self.device)), *sizes)
        print(f"{len(found.faces):,} triangles: {self.out} ({_size(self.out)})")
        return 0

    def _write_mesh(self, scene: Parameters) -> int:
        to_mesh = PRIMITIVES[scene.primitive].to_mesh
        assert to_mesh is not None
        made = to_mesh(scene, self.min_opacity)
        save_mesh(self.out, Mesh(made.xyz, made.rgb, made.faces))
        left_out = " and ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
        print(
            f"{made.parts:,} {scene.noun} as {len(made.faces):,} triangles: {self.out} ({_size(self.out)}); "
            f"{left_out} {scene.noun} are not in it"
        )
        return 0

    def _write_moments(self, scene: Parameters, frames: int) -> int:
        start, end = self.times or self._range(scene)
        written = save_time_slices(self.out, scene, np.linspace(start, end, frames).tolist())
        kept = {path.name for path in written}
        for old in self.out.iterdir():  # of an export with more moments
            if MOMENT.fullmatch(old.name) and old.name not in kept:
                old.unlink()
        print(f"{len(written)} moments from {start:g} to {end:g}: {self.out}")
        return 0

    def _range(self, scene: Parameters) -> tuple[float, float]:
        """From the first time of the run's capture to the last, or of the scene itself."""
        found = times_of(scene, self._capture if (self.scene / "config.json").is_file() else None)
        assert found is not None
        return found

    def _capture(self) -> Capture:
        with opening("opening the capture") as on_progress:
            return load_origin(self.scene).open(on_progress)

    def _check_options(self) -> None:
        """Refuses what makes no sense whatever the scene holds."""
        suffix, scenes, meshes = self.out.suffix.lower(), writable_suffixes(), writable_mesh_suffixes()
        moments = (self.time, *(self.times or ()))
        wrong = [
            (
                self.mesh and (self.frames is not None or self.time is not None),
                f"--mesh is of {_with_meshes()} and neural fields, --frames and --time of scenes that move.",
            ),
            (self.frames is not None and self.time is not None, "--frames writes many moments, --time one."),
            (self.times is not None and self.frames is None, "--times needs --frames N."),
            (self.frames is not None and not 1 <= self.frames <= 99_999, "--frames goes from 1 to 99999."),
            (not np.isfinite([t for t in moments if t is not None]).all(), "times must be finite numbers."),
            (self.min_opacity is not None and not self.mesh, "--min-opacity needs --mesh."),
            (
                (self.resolution is not None or self.level is not None) and not self.mesh,
                "--resolution and --level need --mesh.",
            ),
            (
                self.min_opacity is not None and not 0 <= self.min_opacity < 1,
                "--min-opacity goes from 0 to 1, without 1.",
            ),
            (
                self.half
                and (suffix not in writable_suffixes("half") or self.mesh or self.frames is not None),
                f"--half is for {' and '.join(writable_suffixes('half'))} files.",
            ),
            (
                self.frames is not None and suffix in (*scenes, *meshes),
                f"--frames writes a folder, and {self.out} names a file.",
            ),
            (
                self.mesh and suffix not in meshes,
                f"{self.out}: a mesh is written as {' or '.join(meshes)}.",
            ),
            (
                suffix in meshes and suffix not in scenes and not self.mesh,
                f"{self.out}: {suffix} holds a mesh; --mesh makes one of {_with_meshes()} or of a neural field.",
            ),
            (
                self.frames is None and not self.mesh and suffix not in scenes,
                f"{self.out}: {self.out.suffix or 'a name without suffix'} is no format that is written "
                f"({', '.join(scenes)}; .obj with --mesh; a folder with --frames).",
            ),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise LuxelError(
                    f"luxel export: {message}", "Correct that option; see `luxel export --help`."
                )

    def _check_primitive(self, scene: Parameters) -> None:
        """Refuses what makes no sense for the scene's primitive."""
        if self.mesh and PRIMITIVES[scene.primitive].to_mesh is None:
            raise LuxelError(
                f"{self.scene}: --mesh is of {_with_meshes()}, and this scene is of {scene.noun}.",
                "Leave it out.",
            )
        if (self.frames is not None or self.time is not None) and not scene.moves:
            raise LuxelError(
                f"{self.scene}: --frames and --time are for scenes that move; this one, of {scene.noun}, does not.",
                "Leave them out.",
            )
        known = find_format(self.out)
        whole = self.time is None and self.frames is None and not self.mesh
        if whole and known is not None and not known.stores(scene):
            remedy = "Write one moment of it with --time T, or" if scene.moves else "Write"
            nouns = " and ".join(primitive.noun for primitive in known.primitives or ())
            raise LuxelError(
                f"{self.out}: {known.suffix} holds {nouns}, and this scene is made of {scene.noun}.",
                f"{remedy} {' or '.join(other.suffix for other in formats_for(scene))}.",
            )

    def _check_place(self) -> None:
        """Refuses to replace anything unasked, and ever to replace a folder by a file or a file by a folder."""
        if self.frames is not None and self.out.exists() and not self.out.is_dir():
            raise LuxelError(f"{self.out}: is a file, and --frames writes a folder.", "Give another --out.")
        if self.frames is None and self.out.is_dir():
            raise LuxelError(f"{self.out}: is a folder.", "Give the name of a file with --out.")
        if not self.force and (any(self.out.iterdir()) if self.out.is_dir() else self.out.exists()):
            raise LuxelError(
                f"{self.out}: there is something already.", "Give another --out, or replace it with --force."
            )


def _with_meshes() -> str:
    """The primitives that can be turned into a mesh, in a sentence."""
    return " and ".join(spec.noun for spec in PRIMITIVES.values() if spec.to_mesh is not None)


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
