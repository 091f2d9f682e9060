"""Exports of neural fields: meshes of their surfaces."""

from __future__ import annotations

from luxel.render.errors import LuxelError
from luxel.render.fields.application import Application
from luxel.render.scene import Scene
from luxel.scenes.files.meshes.mesh_files import axes_of_mesh
from luxel.scenes.loading.loaders import facts_of
from luxel.viewer.exports.export_options import ExportOptions
from luxel.viewer.exports.mesh_export import write_field
from luxel.viewer.options import pick_device

PART = Application


def export(options: ExportOptions, scene: Scene) -> None:
    """Writes the surface of a neural field, and prints what was written.

    Raises:
        LuxelError: the options are not those of a field, or the file cannot be written.
    """
    if options.object or options.labels:
        raise LuxelError(
            f"{options.scene}: a neural field has no objects.", "Leave --object and --labels out."
        )
    if not options.mesh or options.min_opacity is not None:
        raise LuxelError(
            f"{options.scene}: a neural field can only be exported as a mesh of its surface.",
            "Give --mesh and an --out that ends in .ply, .obj or .glb, and no options of primitives.",
        )
    options.check_finish("a neural field", ("--fill-holes", "--texture"))
    options.check_path()
    field = scene.parts[Application].to(pick_device(options.device))
    facts = facts_of(scene)
    coordinates = options.coordinates(facts)
    made = write_field(
        options.out,
        field,
        options.resolution,
        options.level,
        options.finish,
        coordinates,
        facts,
        world=options.world,
    )
    print(f"{made}: {options.written()}")
    options.say_coordinates(coordinates, axes_of_mesh(options.out))
