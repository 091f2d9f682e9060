"""Opens and writes any scene file that luxel knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from luxel.render.primitives import Gaussians, Parameters
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.primitive_ply import load_primitive_ply, save_primitive_ply
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
    """The primitives that a scene file holds, whichever they are, or the scene.ply in a folder.

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
        scene: any primitives.

    Raises:
        CaptureError: the format is unknown or holds no such primitives, or there is no permission or no room.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".ply":
        save_primitive_ply(path, scene)
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


LOADERS: dict[str, Callable[[Path], Parameters]] = {
    ".ply": load_primitive_ply,
    ".splat": load_splat,
    ".safetensors": load_safetensors,
}
WRITTEN = (".ply", ".safetensors", ".splat")
