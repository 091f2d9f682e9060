"""The table of loaders: which opens a path, and which writers a scene has."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from luxel.render.scene import Scene
from luxel.scenes.files.scene_format import SceneFacts
from luxel.scenes.loading.loader import DEFAULT, Loader, LoadOptions, Writer
from luxel.scenes.loading.scene_files import load_scene_file

# Modules with a `Loader` named LOADER, a line for each. The first that recognises a path opens it.
LOADERS = (
    "luxel.scenes.loading.meshes",
    "luxel.scenes.loading.runs",
    "luxel.scenes.loading.fields",
    "luxel.scenes.loading.scene_files",
)


def loaders() -> Iterator[Loader]:
    """The loaders, each imported when its turn comes."""
    return (import_module(name).LOADER for name in LOADERS)


def open_scene(path: Path, options: LoadOptions = DEFAULT) -> Scene:
    """The scene of a run folder or a file.

    Raises:
        LuxelError: it is none that a loader recognises, or cannot be read.
    """
    loader = next((each for each in loaders() if each.recognises(path)), None)
    return load_scene_file(path, options) if loader is None else loader.load(path, options)


def writers_of(scene: Scene) -> list[Writer]:
    """The writers of the parts that a scene has."""
    return [writer for loader in loaders() for writer in loader.writers if writer.needs in scene.parts]


def find_writer(path: Path, scene: Scene) -> Writer | None:
    """The writer of a scene in the format of a path's suffix; None: there is none."""
    name = path.name.lower()
    return next((w for w in writers_of(scene) if any(name.endswith(s) for s in w.suffixes())), None)


def written_suffixes() -> tuple[str, ...]:
    """Suffixes of the files that any writer writes."""
    return tuple(s for loader in loaders() for writer in loader.writers for s in writer.suffixes())


def facts_of(scene: Scene) -> SceneFacts:
    """What is known of a scene, as scene files hold it."""
    about = scene.about
    return SceneFacts(about.antialiased, about.up, about.metres, about.shift)
