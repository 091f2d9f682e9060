"""Loading and saving of scenes in any registered format."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeVar

import torch

from luxel.render.primitives import Gaussians, Parameters
from luxel.render.primitives.non_finite import non_finite, with_limits
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.axes import OWN, between, known_axes
from luxel.scenes.files.ply import EXPORT_AGAIN
from luxel.scenes.files.quantised.quantisation import unit_quats
from luxel.scenes.files.reading import reading
from luxel.scenes.files.registry import (
    OTHER_PROGRAMS,
    format_of,
    readable_suffixes,
    unreadable,
    writable_format,
    writable_suffixes,
)
from luxel.scenes.files.scene_facts import facts_between
from luxel.scenes.files.scene_format import FACTS, SceneFacts, SceneFormat
from luxel.scenes.unused import Unused, in_order, unused_lines

P = TypeVar("P", bound=Parameters)

log = logging.getLogger(__name__)
_logged: set[tuple[str, int, int, str]] = set()  # path, time of change, size and sentence


def load_primitives(
    path: str | Path, *, keep_non_finite: bool = False, axes: str | None = None, log_unused: bool = True
) -> Parameters:
    """The primitives of a scene file, of any class, or of the scene.ply in a folder.

    Args:
        keep_non_finite: see `finite_primitives`.
        axes: of the file, where it ignores the specification of its format, see `luxel.scenes.files.axes`.
        log_unused: log what the file holds and luxel does not use, see `load_unused`.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or no primitive in it is finite.
    """
    path, known = _readable(path)
    assert known.load is not None
    with reading(path, f"a {known.suffix} scene", EXPORT_AGAIN):
        scene = known.load(path)
    scene = between(path, scene, _axes(path, known, axes), OWN)
    scene = finite_primitives(path, with_rotations(scene), keep=keep_non_finite)
    if log_unused:
        _log_unused(path, known)
    return scene


def load_unused(path: str | Path) -> list[Unused]:
    """What a scene file holds that luxel does not use, most harmful first; empty: all of it is used.

    Raises:
        CaptureError: the format is unknown, or the file cannot be read.
    """
    return _unused(*_readable(path))


def _unused(path: Path, known: SceneFormat) -> list[Unused]:
    if known.read_unused is None:
        return []
    with reading(path, f"a {known.suffix} scene", EXPORT_AGAIN):
        return in_order(known.read_unused(path))


def _log_unused(path: Path, known: SceneFormat) -> None:
    """Logs what a file holds that is not used, once for a file: it may be loaded several times.

    The scene has been read by now, so that parts of the file that cannot be looked at are no error.
    """
    try:
        unused = _unused(path, known)
    except CaptureError as error:
        log.debug("what %s holds besides its primitives is not known: %s", path, error)
        return
    for line in unused_lines(unused, f"luxel inspect {path} --json"):
        status = path.stat()
        key = (str(path.absolute()), status.st_mtime_ns, status.st_size, line)
        if key not in _logged:
            _logged.add(key)
            log.warning("%s: %s", path, line)


def _axes(path: Path, known: SceneFormat, given: str | None) -> str:
    """The axes of a file: those that are given, those that it states, or those of its format.

    Raises:
        CaptureError: those that are given are none.
    """
    if given:
        return known_axes(given)
    if known.read_axes is None:
        return known.axes
    with reading(path, f"a {known.suffix} scene", EXPORT_AGAIN):
        return known.read_axes(path)


def with_rotations(scene: P) -> P:
    """The scene with the identity for quaternions of length 0, which converters of point clouds write.

    Other programs, and luxel's writers of quantised files, read them so; a quaternion of length 0 has no direction.
    Those whose squares are too small or too large for their type get the length 1.
    """
    quats = scene.tensors().get("quats")
    if quats is None:
        return scene
    squares = quats.square().sum(1)
    usual = (squares >= torch.finfo(quats.dtype).tiny) & squares.isfinite()
    if bool(usual.all()):
        return scene
    rows = ~usual & quats.isfinite().all(1)
    turned = quats.clone()
    turned[rows] = torch.from_numpy(unit_quats(quats[rows].numpy())).to(quats)
    return type(scene)(**{**scene.tensors(), "quats": turned})


def load_facts(path: str | Path, *, axes: str | None = None) -> SceneFacts:
    """What a scene file says besides its primitives, in luxel's axes.

    Args:
        axes: see `load_primitives`.

    Raises:
        CaptureError: the format is unknown, or the file cannot be read.
    """
    path, known = _readable(path)
    if known.read_facts is None:
        return SceneFacts()
    with reading(path, f"a {known.suffix} scene", EXPORT_AGAIN):
        facts = known.read_facts(path)
    return facts_between(facts, _axes(path, known, axes), OWN)


def _readable(path: str | Path) -> tuple[Path, SceneFormat]:
    """A scene file, the scene.ply of a folder that is no scene itself, and its format."""
    path = Path(path)
    with reading(path, "a scene", EXPORT_AGAIN):
        known = format_of(path)
        if known is None and path.is_dir():
            path = path / "scene.ply"
            known = format_of(path)
    if known is None and path.suffix.lower() in OTHER_PROGRAMS:
        problem, remedy = unreadable(path)
        raise CaptureError(f"{path}: {problem}", remedy)
    if known is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is not a scene format that luxel reads "
            f"({', '.join(readable_suffixes())}).",
            "Convert the scene to .ply.",
        )
    return path, known


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
        fate = "they are retained" if keep else "they become finite and look the same"
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
        log.warning("%s: %s; they are retained.", path, said)
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


def save_scene(
    path: str | Path,
    scene: Parameters,
    *,
    facts: SceneFacts | None = None,
    axes: str | None = None,
    **options: object,
) -> None:
    """Writes a scene in the format of the path's suffix, through a temporary file.

    Args:
        path: its suffix is that of a format, see `luxel.scenes.files.registry`.
        scene: primitives that the format stores.
        facts: what is known of the scene; what the format does not hold is left out, see `lost_by`.
        axes: of the file, see `luxel.scenes.files.axes`; None: those of the format's specification.
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
    target = known_axes(axes) if axes else known.axes
    if known.holds:
        chosen["facts"] = facts_between(facts or SceneFacts(), OWN, target)
    known.save(path, between(path, scene, OWN, target), **chosen)


def lost_by(path: str | Path, scene: Parameters, facts: SceneFacts) -> list[str]:
    """What the format of a path does not store of a scene and what is known of it, in words."""
    known = writable_format(Path(path), scene)
    said = {
        "antialiased": "the antialiasing",
        "up": "the up direction",
        "metres": "the length of a unit",
        "shift": "the shift of its coordinates",
    }
    lost = [said[name] for name in FACTS if getattr(facts, name) and name not in known.holds]
    degree = getattr(scene, "sh_degree", 0)
    if degree > known.sh_degree:
        lost.insert(0, f"spherical harmonics above degree {known.sh_degree}")
    return lost
