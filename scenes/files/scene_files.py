"""Loading and saving of scenes in any registered format."""

from __future__ import annotations

from pathlib import Path

from luxel.render.primitives import Gaussians, Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.formats import find_format, readable_suffixes, writable_format, writable_suffixes
from luxel.scenes.files.ply import EXPORT_AGAIN
from luxel.scenes.files.reading import reading


def load_primitives(path: str | Path) -> Parameters:
    """The primitives of a scene file, of any class, or of the scene.ply in a folder.

    Raises:
        CaptureError: the format is unknown, or the file cannot be read.
    """
    path = Path(path)
    with reading(path, "a scene", EXPORT_AGAIN):
        path = path / "scene.ply" if path.is_dir() else path
    known = find_format(path)
    if known is None or known.load is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is not a scene format that luxel reads "
            f"({', '.join(readable_suffixes())}).",
            "Convert the scene to .ply.",
        )
    with reading(path, f"a {known.suffix} scene", EXPORT_AGAIN):
        return known.load(path)


def load_scene(path: str | Path) -> Gaussians:
    """The Gaussians of a scene file, see `load_primitives`.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or it has other primitives.
    """
    return require_gaussians(path, load_primitives(path))


def require_gaussians(path: str | Path, scene: Parameters) -> Gaussians:
    """The scene, checked to be of Gaussians.

    Raises:
        CaptureError: it has other primitives; the message names ``path``, its origin.
    """
    if not isinstance(scene, Gaussians):
        raise CaptureError(
            f"{path}: only Gaussians can be used here, but the primitives of this scene are {scene.noun}.",
            "Give a scene of Gaussians.",
        )
    return scene


def save_scene(path: str | Path, scene: Parameters, **options: object) -> None:
    """Writes a scene in the format of the path's suffix, through a temporary file.

    Args:
        path: its suffix is that of a format, see `luxel.scenes.files.formats`.
        scene: primitives that the format stores.
        options: options of the format, such as ``half=True`` of .safetensors. Those that are None or False are as if
            not given.

    Raises:
        CaptureError: the format is unknown, does not store these primitives or lacks an option, or the file cannot be
            written.
    """
    path = Path(path)
    known = writable_format(path, scene)
    assert known.save is not None
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    for name in chosen:
        if name not in known.options:
            raise CaptureError(
                f"{path}: {known.suffix} has no option {name}.",
                f"Leave it out, or write one of {', '.join(writable_suffixes(name)) or '(no format has it)'}.",
            )
    known.save(path, scene, **chosen)
