"""Opens any scene file that luxel reads."""

from __future__ import annotations

from pathlib import Path

from luxel.render.primitives.gaussians import Gaussians
from luxel.scenes.errors import CaptureError
from luxel.scenes.ply import load_gaussians
from luxel.scenes.splat import load_splat

LOADERS = {".ply": load_gaussians, ".splat": load_splat}


def load_scene(path: str | Path) -> Gaussians:
    """Gaussians from a .ply (INRIA layout) or .splat file, or from the scene.ply in a folder.

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
