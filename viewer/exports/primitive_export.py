"""Exports of primitives: scene files, meshes, one or several times of dynamic scenes, single objects."""

from __future__ import annotations

import torch
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.primitives import PRIMITIVES, Parameters
from luxel.render.runs.folder.run_config import has_config
from luxel.render.scene import Scene
from luxel.scenes import Capture
from luxel.scenes.files.axes import known_axes
from luxel.scenes.files.meshes.mesh_files import axes_of_mesh
from luxel.scenes.files.registry import find_format, formats_for, writable_format
from luxel.scenes.files.scene_files import lost_by
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loaders import facts_of, find_writer
from luxel.scenes.loading.run_results import is_run
from luxel.viewer.exports.coordinates import Coordinates
from luxel.viewer.exports.export_options import ExportOptions
from luxel.viewer.exports.mesh_export import write_hulls, write_surface
from luxel.viewer.exports.page_settings import page_start
from luxel.viewer.exports.time_export import write_times
from luxel.viewer.options import pick_device
from luxel.viewer.progress import opening
from luxel.viewer.scene_loading.capture_options import load_origin
from luxel.viewer.scene_loading.runs import times_of
from luxel.viewer.scene_loading.scene_facts import with_up_of_capture
from luxel.viewer.segmenting import find_object, run_objects

PART = Parameters


def export(options: ExportOptions, opened: Scene) -> None:
    """Writes the primitives of a scene as the options say, and prints what was written.

    Raises:
        LuxelError: the options are not those of these primitives, or a file cannot be read or written.
    """
    scene = opened.parts[Parameters]
    _check_primitive(options, scene)
    options.check_path()
    scene, labels = _of_objects(options, scene)
    known, facts = find_format(options.out), facts_of(opened)
    # A mesh takes it from the capture that it is made of, and a folder of .ply files holds it.
    if options.upright or (not options.mesh and (known is None or "up" in known.holds)):
        facts = with_up_of_capture(facts, options.scene, options.capture)
    coordinates = options.coordinates(facts)
    if options.mesh:
        _write_mesh(options, scene if options.time is None else scene.at(options.time), coordinates, facts)
        return
    if coordinates.changed:
        with torch.no_grad():
            scene, facts = scene.transformed(coordinates.transform), coordinates.facts
    if options.frames is not None:
        times = options.times or _range(options, opened)
        write_times(options.out, scene, *times, options.frames, facts, force=options.force)
        if coordinates.changed:
            print(coordinates.in_words(options.out.name))
        return
    if options.time is not None:
        scene = scene.at(options.time)
    chosen = {
        "half": options.half,
        "labels": labels,
        "version": options.spz_version,
        "world": options.world and facts.shift is not None,
    }
    if known is not None and "view" in known.options and has_config(options.scene):
        chosen |= page_start(options.scene, coordinates, options.capture)
    writer = find_writer(options.out, opened)
    assert writer is not None and writer.needs is Parameters
    writer.write(options.out, scene, {"facts": facts, "axes": options.out_axes, **chosen})
    print(f"{scene.count:,} {scene.noun}: {options.written()}")
    if lost := lost_by(options.out, scene, coordinates.stated):
        print(f"{options.out.name} does not hold: {', '.join(lost)}")
    axes = known_axes(options.out_axes) if options.out_axes else writable_format(options.out, scene).axes
    options.say_coordinates(coordinates, axes)


def _of_objects(options: ExportOptions, scene: Parameters) -> tuple[Parameters, Tensor | None]:
    """The primitives of the chosen objects, all without any; and their labels where these are to be written."""
    if not options.object and not options.labels:
        return scene, None
    if not is_run(options.scene):
        raise LuxelError(
            f"{options.scene}: a scene file names no objects.",
            "Give the folder of the run that was segmented.",
        )
    objects = run_objects(options.scene, scene)
    rows = torch.ones(scene.count, dtype=torch.bool)
    if options.object:
        chosen = torch.tensor([find_object(objects, name).label for name in options.object])
        rows = torch.isin(objects.labels, chosen.to(torch.uint8)) != options.invert
    if not bool(rows.any()):
        raise LuxelError(
            f"{options.scene}: no primitives are left to write.",
            "Choose other objects, or segment them again with further clicks.",
        )
    return scene.select(rows.to(scene.device)), objects.labels[rows] if options.labels else None


def _write_mesh(
    options: ExportOptions, scene: Parameters, coordinates: Coordinates, facts: SceneFacts
) -> None:
    """Writes a mesh of primitives; the facts are those of the scene."""
    if PRIMITIVES[scene.primitive].engine.to_mesh is None:
        made = write_surface(
            options.scene,
            options.out,
            scene,
            pick_device(options.device),
            options.resolution,
            options.finish,
            options.capture,
            coordinates,
            facts,
            world=options.world,
        )
        print(f"{made}: {options.written()}")
    else:
        made, left_out = write_hulls(
            options.out, scene, options.min_opacity, facts, coordinates, world=options.world
        )
        print(f"{made}: {options.written()}; {left_out} were left out")
    options.say_coordinates(coordinates, axes_of_mesh(options.out))


def _range(options: ExportOptions, scene: Scene) -> tuple[float, float]:
    """First and last time of the run's capture, or of the scene itself."""

    def capture() -> Capture:
        with opening("opening the capture") as on_progress:
            return load_origin(options.scene, options.capture).open(on_progress)

    times = times_of(scene, capture if has_config(options.scene) else None)
    assert times is not None
    return times


def _check_primitive(options: ExportOptions, scene: Parameters) -> None:
    """Refuses options that the scene's primitive does not support."""
    hulls = PRIMITIVES[scene.primitive].engine.to_mesh is not None
    if options.level is not None or (options.resolution is not None and hulls):
        option = "--resolution" if options.level is None else "--level"
        raise LuxelError(f"{options.scene}: {option} is not for {scene.noun}.", "Leave it out.")
    if options.min_opacity is not None and not hulls:
        raise LuxelError(f"{options.scene}: --min-opacity is not for {scene.noun}.", "Leave it out.")
    if hulls:
        options.check_finish(scene.noun, ("--fill-holes", "--triangles", "--texture"))
    if options.mesh and scene.moves and options.time is None:
        raise LuxelError(
            f"{options.scene}: a mesh is of one time, and this scene is dynamic.", "Give --time T."
        )
    if (options.frames is not None or options.time is not None) and not scene.moves:
        raise LuxelError(
            f"{options.scene}: --frames and --time are for dynamic scenes, and this scene of {scene.noun} is static.",
            "Leave them out.",
        )
    scene_format = find_format(options.out)
    entire = options.time is None and options.frames is None and not options.mesh
    if entire and scene_format is not None and not scene_format.stores(scene):
        remedy = "Write one time of it with --time T, or write" if scene.moves else "Write"
        nouns = " and ".join(primitive.noun for primitive in scene_format.primitives or ())
        raise LuxelError(
            f"{options.out}: {scene_format.suffix} holds {nouns}, and this scene is made of {scene.noun}.",
            f"{remedy} {' or '.join(other.suffix for other in formats_for(scene))}.",
        )
