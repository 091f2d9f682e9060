"""Opens any scene file that luxel reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from luxel.render.primitives import Gaussians, Parameters
from luxel.scenes.convex_ply import load_convexes
from luxel.scenes.errors import CaptureError
from luxel.scenes.ply import HEADER_LIMIT, load_gaussians, read_header
from luxel.scenes.safetensors_scene import load_safetensors
from luxel.scenes.splat import load_splat


def load_scene(path: str | Path) -> Gaussians:
    """Gaussians from a .ply (INRIA layout), .splat or .safetensors file, or from the scene.ply in a folder.

    Raises:
        CaptureError: the format is unknown, the file cannot be read, or it holds other primitives.
    """
    scene = load_primitives(path)
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


def load_ply(path: Path) -> Parameters:
    """Convexes where the file has their properties, else Gaussians."""
    try:
        with path.open("rb") as file:
            names = {name for name, _ in read_header(path, file.read(HEADER_LIMIT)).properties}
    except (OSError, ValueError):  # load_gaussians says what is wrong
        names = set()
    return load_convexes(path) if {"log_delta", "log_sigma"} & names else load_gaussians(path)


LOADERS: dict[str, Callable[[Path], Parameters]] = {
    ".ply": load_ply,
    ".splat": load_splat,
    ".safetensors": load_safetensors,
}
