"""What neural fields are trained on, opened by kind: images, meshes, volumes, captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from luxel.render.camera import View
from luxel.render.errors import LuxelError
from luxel.render.runs.run_folder import RunFolder
from luxel.viewer.runs import Origin, RunError, load_origin

LANDSCAPE, CLOUD, KNOT = "landscape", "cloud", "knot"  # words for what luxel makes up itself


@dataclass
class FieldData:
    """What a field is trained on.

    Args:
        name: for people and file names.
        data: as `Application.begin` takes it.
        about: more entries for config.json of the run.
        views: posed photographs, where there are any.
        up: the world's up direction where the data say it, [3].
        background: colour behind the field.
    """

    name: str
    data: Any
    about: dict[str, Any]
    views: Sequence[View] = field(default_factory=tuple)
    up: np.ndarray | None = None
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass
class FieldOrigin:
    """Where the data of a field are and how they are opened, so that they can be opened alike again.

    Args:
        kind: of the field.
        path: of the data, or a word for what luxel makes up itself.
        capture: how a capture is opened; its path counts nothing.
    """

    kind: str
    path: str
    capture: Origin

    @staticmethod
    def of(kind: str, path: str, capture: Origin) -> FieldOrigin:
        """With the absolute path of what is no word."""
        words = {"image": LANDSCAPE, "volume": CLOUD, "sdf": KNOT}
        return FieldOrigin(kind, path if path == words.get(kind) else str(Path(path).resolve()), capture)

    @staticmethod
    def of_run(folder: Path) -> FieldOrigin:
        """What the run of a field was trained on.

        Raises:
            LuxelError: config.json does not say it.
        """
        body = RunFolder.read_body(folder)
        try:
            kind = str(body["config"]["field"])
            if "capture" in body:
                origin = load_origin(folder)
                return FieldOrigin(kind, origin.path, origin)
            given = body["data"]
            return FieldOrigin(kind, str(given["path"]), Origin("", max_size=given["max_size"]))
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{folder / 'config.json'}: does not say what the field was trained on.",
                "Give it again: luxel train DATA --resume RUN.",
            ) from error

    @property
    def name(self) -> str:
        """For people and file names."""
        return (
            Path(self.path).stem
            if Path(self.path).suffix and not Path(self.path).is_dir()
            else Path(self.path).name
        )

    def open(self, on_progress: Callable[[str, float], None] | None = None) -> FieldData:
        """Reads the data.

        Raises:
            LuxelError: they are missing, damaged, or of another kind.
        """
        return OPENERS[self.kind](self, on_progress)

    def about(self) -> dict[str, Any]:
        """What config.json of a run says of data that are no capture."""
        return {"data": {"path": self.path, "max_size": self.capture.max_size}}


def _image(origin: FieldOrigin, on_progress: Any) -> FieldData:
    if origin.path == LANDSCAPE:
        from luxel.scenes.synthetic.landscape import landscape

        side = origin.capture.max_size or 1024
        return FieldData(origin.name, landscape(side, side), origin.about())
    from luxel.scenes.files.image_files import read_image

    return FieldData(origin.name, read_image(origin.path, origin.capture.max_size), origin.about())


def _sdf(origin: FieldOrigin, on_progress: Any) -> FieldData:
    if origin.path == KNOT:
        from luxel.scenes.synthetic.knot_mesh import ridged_knot

        return FieldData(origin.name, ridged_knot(), origin.about())
    from luxel.scenes.files.mesh_files import read_mesh

    return FieldData(origin.name, read_mesh(origin.path), origin.about())


def _volume(origin: FieldOrigin, on_progress: Any) -> FieldData:
    if origin.path == CLOUD:
        from luxel.scenes.synthetic.cloud import Cloud

        return FieldData(origin.name, Cloud(), origin.about())
    from luxel.scenes.files.volumes import read_volume

    return FieldData(origin.name, read_volume(origin.path), origin.about())


def _radiance(origin: FieldOrigin, on_progress: Any) -> FieldData:
    from luxel.render.fields.photographs import Capture

    opener = origin.capture
    opener.path = origin.path
    capture = opener.open(on_progress)
    behind = (1.0, 1.0, 1.0) if capture.cutout else (0.0, 0.0, 0.0)
    data = Capture(capture.train, capture.test, capture.points, background=behind)
    return FieldData(capture.name, data, opener.about(capture), capture.views, capture.up, behind)


OPENERS: dict[str, Callable[[FieldOrigin, Any], FieldData]] = {
    "image": _image,
    "sdf": _sdf,
    "volume": _volume,
    "radiance": _radiance,
}


def require_kind(kind: str, path: str) -> None:
    """Refuses a file whose suffix says that it is of another kind, before anything is read.

    Raises:
        LuxelError: it is.
    """
    suffixes = {
        "sdf": (".ply", ".obj", ".stl"),
        "volume": (".npy", ".npz"),
        "image": (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"),
    }
    suffix = Path(path).suffix.lower()
    for other, theirs in suffixes.items():
        if other != kind and suffix in theirs and suffix not in suffixes.get(kind, ()):
            raise LuxelError(
                f"{path}: this is no file for a field of {kind!r}.", f"Did you mean --field {other}?"
            )
