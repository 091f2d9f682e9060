"""The loader of run folders."""

from __future__ import annotations

from pathlib import Path

from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.scene import Scene
from luxel.render.train.resume import read_config
from luxel.scenes.files.scene_facts import facts_from
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions
from luxel.scenes.loading.run_results import (
    check_axes,
    is_field_run,
    is_run,
    load_run_field,
    load_run_scene,
    retains_lenses,
)
from luxel.scenes.loading.scene_files import scene_of


def load_run(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The scene of a run, of primitives or of a field."""
    check_axes(path, options.axes)
    if is_field_run(path):
        return field_scene(load_run_field(path).to(options.device))
    parameters = load_run_scene(path, keep_non_finite=options.keep_non_finite)
    return scene_of(parameters, facts_of_run(path), options, lenses=retains_lenses(path))


def facts_of_run(path: Path) -> SceneFacts:
    """What the configuration of a run says of its primitives, or its scene.ply where there is no configuration."""
    if not has_config(path):
        return load_facts(path) if (path / "scene.ply").is_file() else SceneFacts()
    about = RunFolder.read_body(path).get("capture")
    known = facts_from(about if isinstance(about, dict) else {})
    return SceneFacts(antialiased=read_config(path)[0].antialiased, up=known.up, shift=known.shift)


LOADER = Loader("a run", is_run, load_run)
