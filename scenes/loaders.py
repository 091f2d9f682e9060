"""Scenes of files and folders: one list of loaders, each of which recognises a path, opens it and names its writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.fields.files import FIELD_FILE, is_field, load_field
from luxel.render.primitives import Parameters
from luxel.render.raster.primitive_scene import primitive_scene
from luxel.render.runs.folder.results import examine
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.notices import print_once
from luxel.render.scene import Scene
from luxel.render.surfaces.mesh_scene import mesh_scene
from luxel.render.train.resume import read_config
from luxel.scenes.files.meshes.mesh_files import is_mesh
from luxel.scenes.files.meshes.mesh_loading import load_mesh
from luxel.scenes.files.scenes.registry import format_of, writable_suffixes
from luxel.scenes.files.scenes.scene_facts import facts_from
from luxel.scenes.files.scenes.scene_files import load_facts, save_scene
from luxel.scenes.files.scenes.scene_format import SceneFacts
from luxel.scenes.loader import DEFAULT, Loader, LoadOptions, Writer
from luxel.scenes.runs import (
    check_axes,
    is_field_run,
    is_run,
    load_any_scene,
    load_run_field,
    load_run_scene,
    retains_lenses,
)


def load_run(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The scene of a run, of primitives or of a field."""
    check_axes(path, options.axes)
    if is_field_run(path):
        return field_scene(load_run_field(path).to(options.device))
    parameters = load_run_scene(path, keep_non_finite=options.keep_non_finite)
    return _primitives(parameters, facts_of_run(path), options, lenses=retains_lenses(path))


def facts_of_run(path: Path) -> SceneFacts:
    """What the configuration of a run says of its primitives, or its scene.ply where there is no configuration."""
    if not has_config(path):
        return load_facts(path) if (path / "scene.ply").is_file() else SceneFacts()
    about = RunFolder.read_body(path).get("capture")
    known = facts_from(about if isinstance(about, dict) else {})
    return SceneFacts(antialiased=read_config(path)[0].antialiased, up=known.up)


def is_field_file(path: Path) -> bool:
    """Whether a path is a file of a neural field."""
    return path.is_file() and path.suffix.lower() == ".safetensors" and is_field(path)


def load_field_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The neural field of a file."""
    check_axes(path, options.axes)
    if path.name == FIELD_FILE and (problem := examine(path, None).problem):
        print_once(f"{problem} It is used as it is.")
    return field_scene(load_field(path).to(options.device))


def load_mesh_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The mesh of a file, with its texture."""
    return mesh_scene(load_mesh(path, axes=options.axes).to(options.device))


def load_scene_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The primitives of a scene file; of one that is none the reason.

    Raises:
        LuxelError: there is no such file, its format is unknown, or it cannot be read.
    """
    parameters = load_any_scene(path, keep_non_finite=options.keep_non_finite, axes=options.axes)
    return _primitives(parameters, load_facts(path, axes=options.axes), options)


def _primitives(
    parameters: Parameters, facts: SceneFacts, options: LoadOptions, lenses: bool = False
) -> Scene:
    parameters = parameters.to(options.device)
    return primitive_scene(parameters, **asdict(facts), backend=options.backend, lenses=lenses)


def write_primitives(path: Path, parameters: Parameters, options: Mapping[str, Any]) -> None:
    """Writes primitives in the format of the path's suffix; the options are those of `save_scene`."""
    save_scene(path, parameters, **options)


# The first that recognises a path opens it; a new kind of scene is one line.
LOADERS: list[Loader] = [
    Loader("a mesh", is_mesh, load_mesh_file),
    Loader("a run", is_run, load_run),
    Loader("a neural field", is_field_file, load_field_file),
    Loader(
        "a scene file",
        lambda path: format_of(path) is not None,
        load_scene_file,
        (Writer(Parameters, writable_suffixes, write_primitives),),
    ),
]


def open_scene(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The scene of a run folder or a file.

    Raises:
        LuxelError: it is none that a loader recognises, or cannot be read.
    """
    loader = next((each for each in LOADERS if each.recognises(path)), None)
    return load_scene_file(path, options) if loader is None else loader.load(path, options)


def writers_of(scene: Scene) -> list[Writer]:
    """The writers of the parts that a scene has."""
    return [writer for loader in LOADERS for writer in loader.writers if writer.needs in scene.parts]


def find_writer(path: Path, scene: Scene) -> Writer | None:
    """The writer of a scene in the format of a path's suffix; None: there is none."""
    name = path.name.lower()
    return next((w for w in writers_of(scene) if any(name.endswith(s) for s in w.suffixes())), None)


def written_suffixes() -> tuple[str, ...]:
    """Suffixes of the files that any writer writes."""
    return tuple(s for loader in LOADERS for writer in loader.writers for s in writer.suffixes())


def facts_of(scene: Scene) -> SceneFacts:
    """What is known of a scene, as scene files hold it."""
    return SceneFacts(scene.about.antialiased, scene.about.up, scene.about.metres)
