"""The options of `luxel export`, and which of them exclude each other."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from luxel.render.bounds import Bounds, Options, Positive, ShareBelow1, Time
from luxel.render.errors import LuxelError
from luxel.viewer.exports.mesh_options import MeshFinish
from luxel.viewer.options import DeviceName, optional

if TYPE_CHECKING:
    from luxel.scenes.files.scene_format import SceneFacts
    from luxel.viewer.exports.coordinates import Coordinates


@dataclass
class ExportOptions(Options):
    """What is exported, and as what."""

    scene: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")]
    """Folder of a run, or a scene file."""
    out: Annotated[Path, tyro.conf.arg(metavar="PATH")]
    """File to write, in the format of its suffix; with --frames and --cameras a folder."""
    capture: Annotated[Path | None, optional("CAPTURE")] = None
    """Take cameras, times and the up direction from this capture; default: the one that the run was trained on."""
    half: bool = False
    """Write .safetensors in float16, about half as large; parameters whose rounding is visible, such as
    positions and times, stay float32."""
    scene_axes: Annotated[str | None, optional("AXES")] = None
    """Axes of a scene file that ignores the specification of its format: what x, y and z point at, by the letters of
    right, left, up, down, front and back, such as RDF (3DGS) or RUB; default: those of the format."""
    out_axes: Annotated[str | None, optional("AXES")] = None
    """Axes of the file --out, in the same letters; default: those of its format."""
    spz_version: Annotated[Literal[3, 4] | None, optional("{3,4}")] = None
    """Version of the format of an .spz file: 3 (gzip) or 4 (zstd); default: that which most programs read."""
    cameras: bool = False
    """Write the cameras and points of the run's capture as a COLMAP model (cameras.bin, images.bin, points3D.bin), with
    the lenses of the original images."""
    mesh: bool = False
    """Write a triangle mesh with vertex colours or a texture (.ply, .obj or .glb): the surface of a run's scene, hulls
    of convexes, or the surface of a neural field."""
    resolution: Annotated[Annotated[int, Bounds(8, 1024)] | None, optional("N")] = None
    """With --mesh: cells along the longest side of a neural field's box, or of what the cameras of a run see; default:
    256, or 512 for what cameras see on a GPU."""
    level: Annotated[Positive | None, optional("DENSITY")] = None
    """With --mesh of a field with density: density at the surface, per side of its box; default: 50, of volumes 10."""
    keep_non_finite: bool = False
    """Keep primitives with parameters that are NaN or infinite; by default they are left out, with a message."""
    device: DeviceName = "auto"
    """Device that evaluates a neural field, or renders depth for a mesh; auto: the GPU if luxel can use it, else the
    CPU."""
    min_opacity: Annotated[ShareBelow1 | None, optional("OPACITY")] = None
    """With --mesh of convexes: leave out those of lower opacity; default: 0.1."""
    finish: Annotated[MeshFinish, tyro.conf.arg(name="")] = field(default_factory=MeshFinish)
    frames: Annotated[Annotated[int, Bounds(1, 99999)] | None, optional("N")] = None
    """Dynamic scenes: write N times as frame-00000.ply, ... into the folder --out."""
    times: Annotated[tuple[Time, Time] | None, optional("START END")] = None
    """With --frames: first and last time; default: the range of the capture."""
    time: Annotated[Time | None, optional("TIME")] = None
    """Dynamic scenes: write this time as static Gaussians."""
    object: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, optional("NAME")] = ()
    """Write this object alone, of a run that was segmented; may be given several times."""
    invert: bool = False
    """With --object: write everything but the objects."""
    labels: bool = False
    """Write the labels of the run's objects too: property label (uchar) of .ply, tensor label of .safetensors."""
    world: bool = False
    """Large coordinates (UTM, ECEF), which are shifted inside: write those of the capture, as double, in .ply, and with
    --mesh in .ply and .obj. Many programs read doubles as float32 and show steps."""
    upright: bool = False
    """Turn the scene so that its up direction is that of the format's axes: the one that was set in the viewer (panel
    Ruler), else that of the capture or file."""
    metric: bool = False
    """Write coordinates in metres: the scene is scaled by the length of its unit, which was set in the viewer (panel
    Ruler) or is stated by the file."""
    force: bool = False
    """Replace existing files of the names that are written; others in a folder stay."""

    @property
    def folder_option(self) -> str:
        """The option with which --out is a folder; empty without one."""
        return "--cameras" if self.cameras else "--frames" if self.frames is not None else ""

    @property
    def special(self) -> bool:
        """Whether there are options of primitives or fields."""
        plain = type(self)(
            self.scene, self.out, keep_non_finite=self.keep_non_finite, scene_axes=self.scene_axes
        )
        return replace(self, force=False, device="auto", capture=None) != plain

    def check(self) -> None:
        """Refuses options that exclude each other or are out of range, whatever the scene holds."""
        from luxel.scenes.files.axes import known_axes
        from luxel.scenes.files.meshes.mesh_files import textured_suffixes, writable_mesh_suffixes
        from luxel.scenes.files.registry import find_format, writable_suffixes
        from luxel.scenes.loading.loaders import written_suffixes

        known, scenes, meshes = find_format(self.out), writable_suffixes(), writable_mesh_suffixes()
        suffix = self.out.suffix.lower() if known is None else known.suffix
        if self.out_axes is not None:
            known_axes(self.out_axes)
        as_scene = not (self.mesh or self.cameras or self.frames is not None)
        folder = self.folder_option
        doubles = (".ply", ".obj") if self.mesh else writable_suffixes("world")
        wrong = [
            (
                self.cameras
                and replace(self, capture=None, force=False, device="auto", upright=False, metric=False)
                != type(self)(self.scene, self.out, cameras=True),
                "--cameras cannot be combined with options of scenes.",
            ),
            (
                self.out_axes is not None and not as_scene,
                "--out-axes is for scene files.",
            ),
            (
                self.spz_version is not None and not (as_scene and suffix in writable_suffixes("version")),
                "--spz-version is for .spz files.",
            ),
            (
                self.mesh and self.frames is not None,
                "--mesh cannot be combined with --frames.",
            ),
            (
                self.frames is not None and self.time is not None,
                "--frames and --time exclude each other.",
            ),
            (self.times is not None and self.frames is None, "--times needs --frames N."),
            (self.invert and not self.object, "--invert needs --object NAME."),
            (
                self.labels and (self.mesh or self.frames is not None or self.time is not None),
                "--labels cannot be combined with --mesh, --frames or --time.",
            ),
            (
                self.labels and suffix not in writable_suffixes("labels"),
                f"--labels is for {' and '.join(writable_suffixes('labels'))} files.",
            ),
            (
                self.world and self.frames is not None,
                "--world cannot be combined with --frames.",
            ),
            (
                self.world and suffix not in doubles,
                f"--world is for {' and '.join(doubles)} files: others hold float32.",
            ),
            (
                self.world and (self.upright or self.metric),
                "--world writes the coordinates of the capture: leave --upright and --metric out.",
            ),
            (self.min_opacity is not None and not self.mesh, "--min-opacity needs --mesh."),
            (
                (self.resolution is not None or self.level is not None) and not self.mesh,
                "--resolution and --level need --mesh.",
            ),
            (
                bool(self.finish.given()) and not self.mesh,
                "--fill-holes, --triangles and --texture need --mesh.",
            ),
            (
                self.mesh and self.finish.texture is not None and suffix not in textured_suffixes(),
                f"--texture is for {' and '.join(textured_suffixes())} files.",
            ),
            (
                self.half
                and (suffix not in writable_suffixes("half") or self.mesh or self.frames is not None),
                f"--half is for {' and '.join(writable_suffixes('half'))} files.",
            ),
            (
                bool(folder) and suffix in (*scenes, *meshes),
                f"{folder} writes a folder, and {self.out} names a file.",
            ),
            (
                self.mesh and suffix not in meshes,
                f"{self.out}: a mesh is written as {' or '.join(meshes)}.",
            ),
            (
                suffix in meshes and suffix not in scenes and not self.mesh,
                f"{self.out}: {suffix} holds a mesh, which needs --mesh.",
            ),
            (
                as_scene and not self.out.name.lower().endswith(written_suffixes()),
                f"{self.out}: {self.out.suffix or 'a name without suffix'} is not a format that luxel writes "
                f"({', '.join(scenes)}; .obj with --mesh; a folder with --frames).",
            ),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise LuxelError(
                    f"luxel export: {message}", "Correct that option; see `luxel export --help`."
                )

    def check_finish(self, what: str, refused: tuple[str, ...]) -> None:
        """Refuses options of `MeshFinish` that are not for what is exported."""
        if given := [option for option in self.finish.given() if option in refused]:
            raise LuxelError(f"{self.scene}: {given[0]} is not for {what}.", "Leave it out.")

    def check_path(self) -> None:
        """Refuses to replace files without --force, a folder by a file, or a file by a folder."""
        from luxel.render.storage.folder import entries_besides
        from luxel.render.storage.manifest import NAME as MANIFEST
        from luxel.scenes.files.meshes.mesh_files import files_of

        folder = self.folder_option
        is_folder = os.path.isdir(self.out)
        if folder and os.path.lexists(self.out) and not is_folder:
            raise LuxelError(
                f"{self.out}: this is a file, and {folder} writes a folder.", "Give another --out."
            )
        if not folder and is_folder:
            raise LuxelError(f"{self.out}: this is a folder.", "Give the name of a file with --out.")
        written = files_of(self.out, textured=self.mesh and self.finish.texture is not None)
        if is_folder:
            written = [self.out] if entries_besides(self.out, MANIFEST.__eq__) else []
        if not self.force and (there := [path for path in written if os.path.lexists(path)]):
            raise LuxelError(
                f"{there[0]}: already exists.", "Give another --out, or replace it with --force."
            )

    def coordinates(self, facts: SceneFacts) -> Coordinates:
        """The coordinates in which a scene with these facts is written.

        Raises:
            LuxelError: the up direction or the length of a unit is needed and not known.
        """
        from luxel.viewer.exports.coordinates import Coordinates

        return Coordinates.chosen(facts, self.upright, self.metric)

    def say_coordinates(self, coordinates: Coordinates, axes: str) -> None:
        """Says what separates the coordinates of the file from those of the capture.

        Args:
            coordinates: of the file.
            axes: of the file.
        """
        from luxel.scenes.files.axes import OWN, matrix_between

        shift = coordinates.shift
        if coordinates.changed:
            print(coordinates.in_words(self.out.name))
            return
        if shift is None:
            return
        if self.world:
            print(f"{self.out.name} has the coordinates of the capture, as double.")
        else:
            turned = matrix_between(OWN, axes) @ shift
            print(
                f"The coordinates of {self.out.name} plus {' '.join(f'{x:.10g}' for x in turned)} are those of the "
                "capture."
            )

    def written(self) -> str:
        """The file that was written, with its size, in words."""
        size = self.out.stat().st_size
        return f"{self.out} ({f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.1f} kB'})"
