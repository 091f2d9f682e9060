"""The loader of files of neural fields."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from luxel.render.fields.drawing.field_scene import field_scene
from luxel.render.fields.files import FIELD_FILE, is_field, load_field
from luxel.render.runs.folder.results import examine
from luxel.render.runs.notices import print_once
from luxel.render.scene import Scene
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions
from luxel.scenes.loading.run_results import check_axes
from luxel.scenes.measuring.measured_facts import measured_in_file


def is_field_file(path: Path) -> bool:
    """Whether a path is a file of a neural field."""
    return path.is_file() and path.suffix.lower() == ".safetensors" and is_field(path)


def load_field_file(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The neural field of a file."""
    check_axes(path, options.axes)
    if path.name == FIELD_FILE and (problem := examine(path, None).problem):
        print_once(f"{problem} It is used as it is.")
    field = load_field(path).to(options.device)
    scene = field_scene(field)
    about = scene.about
    if options.measured:
        measured = measured_in_file(path, scene)
        about = replace(about, up=measured.up or about.up, metres=measured.metres or about.metres)
    return field_scene(field, about=about)


LOADER = Loader("a neural field", is_field_file, load_field_file)
