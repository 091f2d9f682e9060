"""Opens and writes any scene file that luxel knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from luxel.render.primitives import Convexes, Gaussians, Gaussians4d, Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.convex_ply import load_convexes, save_convexes
from luxel.scenes.files.gaussians4d_ply import MARKS, load_gaussians4d, save_gaussians4d
from luxel.scenes.files.ply import HEADER_LIMIT, load_gaussians, read_header, save_gaussians
from luxel.scenes.files.safetensors_scene import load_safetensors, save_safetensors
from luxel.scenes.files.splat import load_splat, save_splat


def load_scene(path: str | Path) -> Gaussians:
    """Gaussians from a .ply (INRIA layout), .splat or .safetensors file, or from the scene.ply in a folder.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or it holds other primitives.
    """
    return only_gaussians(path, load_primitives(path))


def only_gaussians(path: str | Path, scene: Parameters) -> Gaussians:
    """The scene, where it is of Gaussians.

    Raises:
        CaptureError: it is of other primitives; the message names ``path``, where it comes from.
    """
    if not isinstance(scene, Gaussians):
        raise CaptureError(
            f"{path}: this scene is of {scene.noun}, and only Gaussians can be used here.",
            "Give a scene of Gaussians.",
        )
    return scene


def load_primitives(path: str | Path) -> Parameters:
    """Gaussians, 4D Gaussians or convexes, whichever a scene file holds, or the scene.ply in a folder.

    Raises:
        CaptureError: the format is unknown or the file cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "scene.ply"
    loader = LOADERS.get(path.suffix.lower())
    if loader is None:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is no scene format that is read "
            f"({', '.join(LOADERS)}).",
            "Convert the scene to .ply.",
        )
    return loader(path)


def save_scene(path: str | Path, scene: Parameters) -> None:
    """Writes a scene in the format that the suffix names, through a temporary file.

    .ply and .safetensors hold any primitive as it is; .splat holds Gaussians without their view dependence.

    Args:
        path: ends in .ply, .safetensors or .splat.
        scene: Gaussians, 4D Gaussians or convexes.

    Raises:
        CaptureError: the format is unknown or holds no such primitives, or there is no permission or no room.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".ply":
        save_ply(path, scene)
    elif suffix == ".safetensors":
        save_safetensors(path, scene)
    elif suffix == ".splat" and isinstance(scene, Gaussians):
        save_splat(path, scene)
    elif suffix == ".splat":
        raise CaptureError(
            f"{path}: .splat holds Gaussians, and this scene is of {scene.noun}.",
            "Write it as .ply or .safetensors.",
        )
    else:
        raise CaptureError(
            f"{path}: {path.suffix or 'a file without suffix'} is no scene format that is written "
            f"({', '.join(WRITTEN)}).",
            "Give the file one of these suffixes.",
        )


def load_ply(path: Path) -> Parameters:
    """4D Gaussians or convexes where the file has their properties, else Gaussians."""
    try:
        with path.open("rb") as file:
            names = {name for name, _ in read_header(path, file.read(HEADER_LIMIT)).properties}
    except (OSError, ValueError):  # load_gaussians says what is wrong
        names = set()
    if MARKS & names:
        return load_gaussians4d(path)
    return load_convexes(path) if {"log_delta", "log_sigma"} & names else load_gaussians(path)


def save_ply(path: Path, scene: Parameters) -> None:
    """Writes the layout that `load_ply` recognises the primitive by."""
    if isinstance(scene, Gaussians):
        save_gaussians(path, scene)
    elif isinstance(scene, Gaussians4d):
        save_gaussians4d(path, scene)
    elif isinstance(scene, Convexes):
        save_convexes(path, scene)
    else:
        raise CaptureError(f"{path}: there is no PLY layout for {scene.noun}.", "Write it as .safetensors.")


LOADERS: dict[str, Callable[[Path], Parameters]] = {
    ".ply": load_ply,
    ".splat": load_splat,
    ".safetensors": load_safetensors,
}
WRITTEN = (".ply", ".safetensors", ".splat")
