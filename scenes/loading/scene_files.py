"""The loader and the writer of scene files of primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.runs.folder.results import examine
from luxel.render.runs.notices import print_once
from luxel.render.scene import Scene
from luxel.scenes.files.registry import find_format, format_of, unreadable, writable_suffixes
from luxel.scenes.files.scene_files import load_facts, load_primitives, save_scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions, Writer
from luxel.scenes.loading.run_results import (
    RunError,
    check_axes,
    is_field_run,
    is_run,
    load_run_scene,
    run_folder,
)
from luxel.scenes.measuring.measured_facts import measured_in_file
from luxel.scenes.measuring.measurements import Measurements


def is_scene_file(path: Path) -> bool:
    """Whether a path is of a scene format that luxel reads."""
    return format_of(path) is not None


def load_scene_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The primitives of a scene file; of one that is none the reason.

    Raises:
        LuxelError: there is no such file, its format is unknown, or it cannot be read.
    """
    parameters = load_any_scene(path, keep_non_finite=options.keep_non_finite, axes=options.axes)
    return measured_scene(path, parameters, load_facts(path, axes=options.axes), options)


def measured_scene(
    path: Path, parameters: Parameters, facts: SceneFacts, options: LoadOptions = DEFAULT
) -> Scene:
    """Primitives of a scene file as a scene, with what the user has measured in it unless the options say otherwise."""
    scene = scene_of(parameters, facts, options)
    if not options.measured or (measured := measured_in_file(path, scene)) == Measurements():
        return scene
    return scene_of(parameters, measured.over(facts), options)


def scene_of(parameters: Parameters, facts: SceneFacts, options: LoadOptions, lenses: bool = False) -> Scene:
    """Primitives as a scene, on the device of the options and drawn by their backend.

    Args:
        parameters: on any device.
        facts: of the file or the run.
        options: how it is opened.
        lenses: whether it was trained on images of distorted lenses.
    """
    parameters = parameters.to(options.device)
    return primitive_scene(parameters, **asdict(facts), backend=options.backend, lenses=lenses)


def load_any_scene(path: Path, *, keep_non_finite: bool = False, axes: str | None = None) -> Parameters:
    """The scene of a run folder or of a scene file, of whatever primitive.

    Args:
        keep_non_finite: see `luxel.scenes.files.scene_files.finite_primitives`.
        axes: of a scene file, see `luxel.scenes.load_primitives`.

    Raises:
        LuxelError: the path is neither, or the file cannot be read.
    """
    if is_field_run(path):
        raise RunError(f"{path}: this is a run of a neural field.", "Give a run of primitives.")
    check_axes(path, axes)
    if path.is_dir() and (is_run(path) or format_of(path) is None):
        return load_run_scene(run_folder(path), keep_non_finite=keep_non_finite)
    if not path.exists():
        raise RunError(f"{path}: there is no such file or folder.", "Give a run folder or a scene file.")
    if path.name == "scene.ply" and (problem := examine(path, None).problem):
        print_once(f"{problem} It is used as it is.")
    known = find_format(path)
    if (known is None or known.load is None) and format_of(path) is None:
        problem, remedy = unreadable(path)
        raise RunError(f"{path}: {problem}", remedy)
    return load_primitives(path, keep_non_finite=keep_non_finite, axes=axes)


def write_primitives(path: Path, parameters: Parameters, options: Mapping[str, Any]) -> None:
    """Writes primitives in the format of the path's suffix; the options are those of `save_scene`."""
    save_scene(path, parameters, **options)


LOADER = Loader(
    "a scene file",
    is_scene_file,
    load_scene_file,
    (Writer(Parameters, writable_suffixes, write_primitives),),
)
