"""The registry of scene formats."""

from __future__ import annotations

from pathlib import Path

from luxel.render.primitives import Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.gltf.glb import GLB
from luxel.scenes.files.quantised.compressed_ply import COMPRESSED_PLY
from luxel.scenes.files.quantised.ksplat import KSPLAT
from luxel.scenes.files.quantised.splat import SPLAT
from luxel.scenes.files.quantised.spz import SPZ
from luxel.scenes.files.scene_format import SceneFormat
from luxel.scenes.files.scenes.gsplat_checkpoint import GSPLAT
from luxel.scenes.files.scenes.primitive_ply import PLY
from luxel.scenes.files.scenes.safetensors_scene import SAFETENSORS
from luxel.scenes.files.sog import HTML, SOG, SOG_FOLDER, STREAMED_SOG

SCENE_FORMATS: list[SceneFormat] = [
    PLY,
    COMPRESSED_PLY,
    SPLAT,
    KSPLAT,
    SPZ,
    SOG,
    SOG_FOLDER,
    STREAMED_SOG,
    GLB,
    SAFETENSORS,
    GSPLAT,
    HTML,
]
# Files of scenes of other programs that luxel does not read, by suffix: what they are, and what to do.
OTHER_PROGRAMS = {
    ".ckpt": (
        "a checkpoint of nerfstudio",
        "Write it as .ply with nerfstudio's command `ns-export gaussian-splat`, and give that file.",
    ),
    ".pth": (
        "a checkpoint of a trainer of 3DGS",
        "Give the .ply of the same training: point_cloud/iteration_N/point_cloud.ply.",
    ),
    ".lcc": (
        "a scene of XGRIDS",
        "Convert it to .ply with splat-transform: splat-transform SCENE.lcc SCENE.ply.",
    ),
}


def register_scene_format(scene_format: SceneFormat) -> None:
    """Adds a format: `load_primitives`, `save_scene`, `luxel export` and `luxel view` then accept its suffix.

    Raises:
        ValueError: the suffix is not in lower case with a dot, or is already registered.
    """
    suffix = scene_format.suffix
    if not suffix.startswith(".") or suffix != suffix.lower():
        raise ValueError(f"the suffix of a scene format must be in lower case with a dot, got {suffix!r}")
    if any(other.suffix == suffix for other in SCENE_FORMATS):
        raise ValueError(f"a scene format with the suffix {suffix} is already registered")
    SCENE_FORMATS.append(scene_format)


def unreadable(path: Path) -> tuple[str, str]:
    """Why a path is of no format that is read, without the path in front, and what to do."""
    suffix = path.suffix.lower()
    if suffix in OTHER_PROGRAMS:
        what, remedy = OTHER_PROGRAMS[suffix]
        return f"this is {what}, which luxel does not read.", remedy
    return (
        f"{path.suffix or 'a file without suffix'} is no scene format that luxel reads.",
        f"Give a run folder or a file of one of these kinds: {', '.join(readable_suffixes())}.",
    )


def find_format(path: str | Path) -> SceneFormat | None:
    """The format of a file by its suffix, the longest that fits; None: no format has it."""
    name = Path(path).name.lower()
    fitting = [known for known in SCENE_FORMATS if name.endswith(known.suffix)]
    return max(fitting, key=lambda known: len(known.suffix), default=None)


def format_of(path: str | Path) -> SceneFormat | None:
    """The format of an existing file or folder, by what is in it or by its suffix; None: luxel reads none such."""
    path = Path(path)
    for known in SCENE_FORMATS:
        if known.load is not None and known.recognises is not None and known.recognises(path):
            return known
    known = find_format(path)
    return known if known is not None and known.load is not None else None


def formats_for(scene: Parameters) -> list[SceneFormat]:
    """The formats in which the primitives of a scene can be written."""
    return [known for known in SCENE_FORMATS if known.save and known.stores(scene)]


def readable_suffixes() -> tuple[str, ...]:
    """Suffixes of the formats that are read."""
    return tuple(known.suffix for known in SCENE_FORMATS if known.load)


def writable_suffixes(option: str | None = None) -> tuple[str, ...]:
    """Suffixes of the formats that are written; with ``option``, of those that have this option."""
    return tuple(
        known.suffix for known in SCENE_FORMATS if known.save and (option is None or option in known.options)
    )


def writable_format(path: Path, scene: Parameters) -> SceneFormat:
    """The format in which a scene is written to a path, by the suffix.

    Raises:
        CaptureError: no format has the suffix, it is not written, or it does not store these primitives.
    """
    known = find_format(path)
    if known is None or known.save is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a name without suffix'} is not a scene format that luxel writes.",
            f"Give the file one of the suffixes {', '.join(writable_suffixes())}.",
        )
    if not known.stores(scene):
        stored = " or ".join(primitive.noun for primitive in known.primitives or ())
        suffixes = " or ".join(other.suffix for other in formats_for(scene))
        raise CaptureError(
            f"{path}: {known.suffix} stores {stored}, but the primitives of this scene are {scene.noun}.",
            f"Write it as {suffixes}.",
        )
    return known
