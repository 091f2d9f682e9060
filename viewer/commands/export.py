"""`luxel export`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from luxel.render.errors import LuxelError
from luxel.viewer.exports.export_options import ExportOptions

# Modules with an ``export(options, scene)`` that has options of its own, for scenes that have the part PART of the
# module: a line for each. `part_export` writes other scenes.
EXPORTERS = (
    "luxel.viewer.exports.field_export",
    "luxel.viewer.exports.primitive_export",
)


@dataclass
class Export(ExportOptions):
    """Writes a scene in another format, as a mesh, as a sequence of static scenes, or the cameras of a run.

    SCENE is the folder of a run, or a scene file (.ply, .compressed.ply, .splat, .ksplat, .spz, .sog, lod-meta.json,
    .glb, .safetensors, .pt of gsplat). The suffix of --out chooses the format. Every primitive can be written as .ply
    (Gaussians in the layout of 3DGS, which other viewers read) and .safetensors; Gaussians as .compressed.ply, .splat,
    .spz, .sog, .glb and .html too, and as SOG in a folder (meta.json). What the format does not hold of the scene is
    printed.
    --mesh writes a triangle mesh: the surface that the cameras of a run see, fused from depth; the hulls of convexes;
    or the surface of a neural field. --frames writes a dynamic
    scene as a folder of static .ply scenes, --time as one. --cameras writes the cameras and points that a run was
    trained on as a COLMAP model. All are in the coordinates of the capture; --upright turns them, --metric scales them
    to metres.

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
        luxel export runs/first --out room.glb --upright --metric
    """

    def execute(self) -> int:
        """Reads and writes; returns the exit status."""
        self.check()
        if self.cameras:
            self._write_cameras()
            return 0
        from luxel.scenes.loading.loader import LoadOptions
        from luxel.scenes.loading.loaders import open_scene
        from luxel.viewer.exports import part_export

        scene = open_scene(self.scene, LoadOptions(self.keep_non_finite, self.scene_axes))
        exporters = (import_module(name) for name in EXPORTERS)
        exporter = next((each for each in exporters if each.PART in scene.parts), part_export)
        exporter.export(self, scene)
        return 0

    def _write_cameras(self) -> None:
        """Writes the COLMAP model of the capture that a run was trained on."""
        from luxel.scenes.loading.run_results import has_capture
        from luxel.scenes.loading.runs import facts_of_capture
        from luxel.scenes.measuring.measured_facts import measured_in_run
        from luxel.viewer.exports.camera_export import write_cameras
        from luxel.viewer.scene_loading.scene_facts import with_up_of_capture

        if not has_capture(self.scene):
            raise LuxelError(
                f"{self.scene}: --cameras needs the folder of a run that was trained on a capture.",
                "Give such a run.",
            )
        self.check_path()
        facts = measured_in_run(self.scene).over(facts_of_capture(self.scene))
        if self.upright:
            facts = with_up_of_capture(facts, self.scene, self.capture)
        coordinates = self.coordinates(facts)
        made = write_cameras(self.scene, self.out, coordinates, self.capture, force=self.force)
        print(f"{made}: {self.out}")
        if coordinates.changed:
            print(coordinates.in_words(str(self.out)))
