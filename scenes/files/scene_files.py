"""Loading and saving of scenes in any registered format."""

from __future__ import annotations

import logging
from pathlib import Path

from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.non_finite import non_finite, with_limits
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.formats import find_format, readable_suffixes, writable_format, writable_suffixes
from luxel.scenes.files.ply import EXPORT_AGAIN
from luxel.scenes.files.reading import reading

log = logging.getLogger(__name__)


def load_primitives(path: str | Path, *, keep_non_finite: bool = False) -> Parameters:
    """The primitives of a scene file, of any class, or of the scene.ply in a folder.

    Args:
        keep_non_finite: see `finite_primitives`.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or no primitive in it is finite.
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
        scene = known.load(path)
    return finite_primitives(path, scene, keep=keep_non_finite)


def finite_primitives(path: str | Path, scene: Parameters, *, keep: bool = False) -> Parameters:
    """The primitives of which all parameters are finite; a warning is logged where there are others.

    Infinite logits of an opacity of 0 or 1, and the infinite logarithm of a scale of 0, become finite instead.

    Args:
        path: where the scene comes from, for messages.
        keep: return the scene as it is; the warning is logged all the same.

    Raises:
        CaptureError: there are primitives, but none of them is finite.
    """
    limited, infinite = with_limits(scene)
    broken = non_finite(limited)
    if infinite:
        fate = "they are kept" if keep else "they become finite and look the same"
        log.warning(
            "%s: %s of %s %s have an infinite logit of the opacity or logarithm of a scale; %s.",
            path,
            f"{infinite:,}",
            f"{scene.count:,}",
            scene.noun,
            fate,
        )
    if broken is None:
        return scene if keep else limited
    said = broken.in_words(limited)
    if keep:
        log.warning("%s: %s; they are kept.", path, said)
        return scene
    if broken.count == scene.count:
        raise CaptureError(
            f"{path}: {said}, which leaves none.",
            "Export or train the scene again; --keep-non-finite opens it as it is.",
        )
    log.warning("%s: %s; they are left out. --keep-non-finite keeps them.", path, said)
    return limited.select(~broken.rows)


def load_scene(path: str | Path, *, keep_non_finite: bool = False) -> Gaussians:
    """The Gaussians of a scene file, see `load_primitives`.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or it has other primitives.
    """
    return require_gaussians(path, load_primitives(path, keep_non_finite=keep_non_finite))


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
