"""`luxel export`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from luxel.render.bounds import Bounds, Options, Positive, ShareBelow1, Time
from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES
from luxel.viewer.exports.mesh_options import MeshFinish
from luxel.viewer.options import DeviceName, optional, pick_device

if TYPE_CHECKING:
    from torch import Tensor

    from luxel.render.fields.application import Application
    from luxel.render.primitives import Parameters
    from luxel.render.scene import Scene
    from luxel.scenes import Capture
    from luxel.scenes.files.scenes.scene_format import SceneFacts


@dataclass
class Export(Options):
    """Writes a scene in another format, as a mesh, as a sequence of static scenes, or the cameras of a run.

    SCENE is the folder of a run, or a scene file (.ply, .compressed.ply, .splat, .ksplat, .spz, .sog, .glb,
    .safetensors). The suffix of --out chooses the format. Every primitive can be written as .ply (Gaussians in the
    layout of 3DGS, which other viewers read) and .safetensors; Gaussians as .compressed.ply, .splat, .spz, .sog, .glb
    and .html too, and as SOG in a folder (meta.json). What the format does not hold of the scene is printed. --mesh
    writes a triangle mesh: the surface that the cameras of a run see, fused from depth; the hulls of convexes; or the
    surface of a neural field. --frames writes a dynamic
    scene as a folder of static .ply scenes, --time as one. --cameras writes the cameras and points that a run was
    trained on as a COLMAP model.

    Examples:
        luxel export runs/first --out scene.splat
        luxel export runs/first --out page.html
        luxel export runs/first --out small.safetensors --half
        luxel export runs/first --out surface.ply --mesh
        luxel export runs/first --out model.glb --mesh --texture 2048
        luxel export runs/convexes --out hulls.obj --mesh
        luxel export runs/knot --out knot.ply --mesh --resolution 512
        luxel export runs/moving --out frames/ --frames 30 --times 0 0.5
        luxel export runs/moving --out still.ply --time 0.25
        luxel export runs/first --out toy.ply --object toy
        luxel export download.spz --out download.ply
        luxel export upside-down.spz --scene-axes RDF --out fixed.glb
        luxel export runs/first --out sparse/0 --cameras
    """

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
    force: bool = False
    """Replace existing files of the names that are written; others in a folder stay."""

    def execute(self) -> int:
        """Reads and writes; returns the exit status."""
        from luxel.render.fields.application import Application
        from luxel.render.primitives import Parameters
        from luxel.scenes.loader import LoadOptions
        from luxel.scenes.loaders import open_scene

        self._check_options()
        if self.cameras:
            return self._write_cameras()
        opened = open_scene(self.scene, LoadOptions(self.keep_non_finite, self.scene_axes))
        if (field := opened.part(Application)) is not None:
            return self._write_field(field)
        if (scene := opened.part(Parameters)) is not None:
            return self._write_primitives(opened, scene)
        return self._write_part(opened)

    def _write_part(self, scene: Scene) -> int:
        """Writes a part of a scene that is neither of primitives nor a field."""
        from luxel.scenes.loaders import find_writer, writers_of

        writer = find_writer(self.out, scene)
        if writer is None or self._special():
            suffixes = [suffix for each in writers_of(scene) for suffix in each.suffixes()]
            raise LuxelError(
                f"{self.scene}: this scene of {scene.about.noun} cannot be written like that.",
                f"Formats of such scenes, without further options: {', '.join(suffixes) or 'none'}.",
            )
        self._check_place()
        writer.write(self.out, scene.parts[writer.needs], {})
        print(f"{scene.count:,} {scene.about.noun}: {self.out} ({_size(self.out)})")
        return 0

    def _special(self) -> bool:
        """Whether there are options of primitives or fields."""
        plain = Export(self.scene, self.out, keep_non_finite=self.keep_non_finite, scene_axes=self.scene_axes)
        return replace(self, force=False, device="auto", capture=None) != plain

    def _write_primitives(self, opened: Scene, scene: Parameters) -> int:
        from luxel.render.primitives import Parameters
        from luxel.render.runs.folder.run_config import has_config
        from luxel.scenes.files.scenes.registry import find_format
        from luxel.scenes.files.scenes.scene_files import lost_by
        from luxel.scenes.loaders import facts_of, find_writer
        from luxel.viewer.exports.page_settings import page_start
        from luxel.viewer.scene_loading.scene_facts import with_up_of_capture

        self._check_primitive(scene)
        self._check_place()
        scene, labels = self._of_objects(scene)
        if self.mesh:
            return self._write_mesh(scene if self.time is None else scene.at(self.time))
        known = find_format(self.out)
        wants_up = known is None or "up" in known.holds  # a folder of .ply files holds it
        facts = facts_of(opened)
        if wants_up:
            facts = with_up_of_capture(facts, self.scene, self.capture)
        if self.frames is not None:
            return self._write_times(opened, scene, self.frames, facts)
        if self.time is not None:
            scene = scene.at(self.time)
        options = {"half": self.half, "labels": labels, "version": self.spz_version}
        if known is not None and "view" in known.options and has_config(self.scene):
            options |= page_start(self.scene, self.capture)
        writer = find_writer(self.out, opened)
        assert writer is not None and writer.needs is Parameters
        writer.write(self.out, scene, {"facts": facts, "axes": self.out_axes, **options})
        print(f"{scene.count:,} {scene.noun}: {self.out} ({_size(self.out)})")
        if lost := lost_by(self.out, scene, facts):
            print(f"{self.out.name} does not hold: {', '.join(lost)}")
        return 0

    def _write_cameras(self) -> int:
        """Writes the COLMAP model of the capture that a run was trained on."""
        from luxel.scenes.runs import has_capture
        from luxel.viewer.exports.camera_export import write_cameras

        if not has_capture(self.scene):
            raise LuxelError(
                f"{self.scene}: --cameras needs the folder of a run that was trained on a capture.",
                "Give such a run.",
            )
        self._check_place()
        print(f"{write_cameras(self.scene, self.out, self.capture, force=self.force)}: {self.out}")
        return 0

    def _of_objects(self, scene: Parameters) -> tuple[Parameters, Tensor | None]:
        """The primitives of the chosen objects, all without any; and their labels where these are to be written."""
        import torch

        from luxel.scenes.runs import is_run
        from luxel.viewer.segmenting import find_object, run_objects

        if not self.object and not self.labels:
            return scene, None
        if not is_run(self.scene):
            raise LuxelError(
                f"{self.scene}: a scene file names no objects.",
                "Give the folder of the run that was segmented.",
            )
        objects = run_objects(self.scene, scene)
        rows = torch.ones(scene.count, dtype=torch.bool)
        if self.object:
            chosen = torch.tensor([find_object(objects, name).label for name in self.object])
            rows = torch.isin(objects.labels, chosen.to(torch.uint8)) != self.invert
        if not bool(rows.any()):
            raise LuxelError(
                f"{self.scene}: no primitives are left to write.",
                "Choose other objects, or segment them again with further clicks.",
            )
        return scene.select(rows.to(scene.device)), objects.labels[rows] if self.labels else None

    def _write_field(self, field: Application) -> int:
        from luxel.viewer.exports.mesh_export import write_field

        if self.object or self.labels:
            raise LuxelError(
                f"{self.scene}: a neural field has no objects.", "Leave --object and --labels out."
            )
        if not self.mesh or self.min_opacity is not None:
            raise LuxelError(
                f"{self.scene}: a neural field can only be exported as a mesh of its surface.",
                "Give --mesh and an --out that ends in .ply, .obj or .glb, and no options of primitives.",
            )
        self._check_finish("a neural field", ("--fill-holes", "--texture"))
        self._check_place()
        written = write_field(
            self.out, field.to(pick_device(self.device)), self.resolution, self.level, self.finish
        )
        print(f"{written}: {self.out} ({_size(self.out)})")
        return 0

    def _write_mesh(self, scene: Parameters) -> int:
        from luxel.viewer.exports.mesh_export import write_hulls, write_surface

        if PRIMITIVES[scene.primitive].engine.to_mesh is None:
            written = write_surface(
                self.scene,
                self.out,
                scene,
                pick_device(self.device),
                self.resolution,
                self.finish,
                self.capture,
            )
            print(f"{written}: {self.out} ({_size(self.out)})")
            return 0
        written, left_out = write_hulls(self.out, scene, self.min_opacity)
        print(f"{written}: {self.out} ({_size(self.out)}); {left_out} were left out")
        return 0

    def _write_times(self, opened: Scene, scene: Parameters, frames: int, facts: SceneFacts) -> int:
        from luxel.viewer.exports.time_export import write_times

        write_times(self.out, scene, *(self.times or self._range(opened)), frames, facts, force=self.force)
        return 0

    def _range(self, scene: Scene) -> tuple[float, float]:
        """First and last time of the run's capture, or of the scene itself."""
        from luxel.render.runs.folder.run_config import has_config
        from luxel.viewer.scene_loading.runs import times_of

        times = times_of(scene, self._capture if has_config(self.scene) else None)
        assert times is not None
        return times

    def _capture(self) -> Capture:
        from luxel.viewer.progress import opening
        from luxel.viewer.scene_loading.capture_options import load_origin

        with opening("opening the capture") as on_progress:
            return load_origin(self.scene, self.capture).open(on_progress)

    def _folder_option(self) -> str:
        """The option with which --out is a folder; empty without one."""
        return "--cameras" if self.cameras else "--frames" if self.frames is not None else ""

    def _check_options(self) -> None:
        """Refuses options that exclude each other or are out of range, whatever the scene holds."""
        from luxel.scenes.files.axes import known_axes
        from luxel.scenes.files.meshes.mesh_files import textured_suffixes, writable_mesh_suffixes
        from luxel.scenes.files.scenes.registry import find_format, writable_suffixes
        from luxel.scenes.loaders import written_suffixes

        known, scenes, meshes = find_format(self.out), writable_suffixes(), writable_mesh_suffixes()
        suffix = self.out.suffix.lower() if known is None else known.suffix
        if self.out_axes is not None:
            known_axes(self.out_axes)
        as_scene = not (self.mesh or self.cameras or self.frames is not None)
        folder = self._folder_option()
        wrong = [
            (
                self.cameras
                and replace(self, capture=None, force=False, device="auto")
                != Export(self.scene, self.out, cameras=True),
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

    def _check_finish(self, what: str, refused: tuple[str, ...]) -> None:
        """Refuses options of `MeshFinish` that are not for what is exported."""
        if given := [option for option in self.finish.given() if option in refused]:
            raise LuxelError(f"{self.scene}: {given[0]} is not for {what}.", "Leave it out.")

    def _check_primitive(self, scene: Parameters) -> None:
        """Refuses options that the scene's primitive does not support."""
        from luxel.scenes.files.scenes.registry import find_format, formats_for

        hulls = PRIMITIVES[scene.primitive].engine.to_mesh is not None
        if self.level is not None or (self.resolution is not None and hulls):
            option = "--resolution" if self.level is None else "--level"
            raise LuxelError(f"{self.scene}: {option} is not for {scene.noun}.", "Leave it out.")
        if self.min_opacity is not None and not hulls:
            raise LuxelError(f"{self.scene}: --min-opacity is not for {scene.noun}.", "Leave it out.")
        if hulls:
            self._check_finish(scene.noun, ("--fill-holes", "--triangles", "--texture"))
        if self.mesh and scene.moves and self.time is None:
            raise LuxelError(
                f"{self.scene}: a mesh is of one time, and this scene is dynamic.", "Give --time T."
            )
        if (self.frames is not None or self.time is not None) and not scene.moves:
            raise LuxelError(
                f"{self.scene}: --frames and --time are for dynamic scenes, and this scene of {scene.noun} is static.",
                "Leave them out.",
            )
        scene_format = find_format(self.out)
        entire = self.time is None and self.frames is None and not self.mesh
        if entire and scene_format is not None and not scene_format.stores(scene):
            remedy = "Write one time of it with --time T, or write" if scene.moves else "Write"
            nouns = " and ".join(primitive.noun for primitive in scene_format.primitives or ())
            raise LuxelError(
                f"{self.out}: {scene_format.suffix} holds {nouns}, and this scene is made of {scene.noun}.",
                f"{remedy} {' or '.join(other.suffix for other in formats_for(scene))}.",
            )

    def _check_place(self) -> None:
        """Refuses to replace files without --force, a folder by a file, or a file by a folder."""
        from luxel.render.storage.folder import entries_besides
        from luxel.render.storage.manifest import NAME as MANIFEST
        from luxel.scenes.files.meshes.mesh_files import files_of

        folder = self._folder_option()
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


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
