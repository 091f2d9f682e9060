"""The loader of run folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.primitives import Parameters
from luxel.render.runs.folder.run_config import has_config
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.scene import Scene
from luxel.render.train.resume import read_config
from luxel.scenes.files.scene_facts import facts_from
from luxel.scenes.files.scene_files import load_facts
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.large_coordinates import with_shift
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions
from luxel.scenes.loading.run_results import (
    check_axes,
    is_field_run,
    is_run,
    load_run_field,
    load_run_scene,
    retains_lenses,
)
from luxel.scenes.loading.scene_files import load_any_scene, scene_of
from luxel.scenes.measuring.measured_facts import measured_in_run


def load_run(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The scene of a run, of primitives or of a field."""
    check_axes(path, options.axes)
    if is_field_run(path):
        field = load_run_field(path).to(options.device)
        about = field_scene(field).about
        facts = SceneFacts(up=about.up, metres=about.metres, shift=facts_of_capture(path).shift)
        if options.measured:
            facts = measured_in_run(path).over(facts)
        return field_scene(field, about=replace(about, up=facts.up, metres=facts.metres, shift=facts.shift))
    parameters = load_run_scene(path, keep_non_finite=options.keep_non_finite)
    facts = facts_of_run(path)
    if options.measured:
        facts = measured_in_run(path).over(facts)
    return scene_of(parameters, facts, options, lenses=retains_lenses(path))


def load_parameters(path: Path, shift: Sequence[float] | np.ndarray) -> Parameters:
    """The primitives of a run or of a scene file, moved to where ``shift`` is subtracted from large coordinates.

    Raises:
        LuxelError: as `load_any_scene`.
    """
    parameters = load_any_scene(path)
    facts = facts_of_run(path) if is_run(path) else load_facts(path)
    return with_shift(parameters, facts.shift, shift)


def facts_of_run(path: Path) -> SceneFacts:
    """What the configuration of a run says of its primitives, or its scene.ply where there is no configuration."""
    if not has_config(path):
        return load_facts(path) if (path / "scene.ply").is_file() else SceneFacts()
    known = facts_of_capture(path)
    return SceneFacts(antialiased=read_config(path)[0].antialiased, up=known.up, shift=known.shift)


def facts_of_capture(path: Path) -> SceneFacts:
    """What the configuration of a run says of its capture."""
    about = RunFolder.read_body(path).get("capture")
    return facts_from(about if isinstance(about, dict) else {})


LOADER = Loader("a run", is_run, load_run)
