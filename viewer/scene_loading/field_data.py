"""The data of neural fields, opened by data type: images, meshes, volumes, captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from luxel.render.errors import LuxelError
from luxel.render.fields.applications import application_type, application_types
from luxel.render.fields.data.high_dynamic_range import HdrImage
from luxel.render.fields.data.tiled_image import TiledImage
from luxel.render.geometry.camera import View
from luxel.render.native import best_device
from luxel.render.runs.folder.run_folder import RunFolder
from luxel.render.runs.strict_json import JsonError, validated
from luxel.scenes.loading.run_results import RunError
from luxel.viewer.scene_loading.capture_options import GIVE_CAPTURE, Origin, load_origin, require_own_file

LINEAR = (".hdr", ".exr")  # images of linear colours


@dataclass
class FieldData:
    """What a field is trained on.

    Args:
        name: shown to people and used in file names.
        data: as `Application.begin` takes it.
        about: more entries for config.json of the run.
        views: posed images, where there are any.
        up: the world's up direction where the data define it, [3].
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
    """Where the data of a field are and how to open them again in the same way.

    Args:
        kind: the application.
        path: of the data, or the name of synthetic data.
        capture: how a capture is opened; its own path is not used.
        stream: leave an image on disk, and read parts of it.
        folder: of the run, which holds a copy of images whose files cannot be read by parts.
    """

    kind: str
    path: str
    capture: Origin
    stream: bool = False
    folder: Path | None = None

    @staticmethod
    def of(kind: str, path: str, capture: Origin) -> FieldOrigin:
        """With the absolute path, unless it is the name of synthetic data."""
        made_up = path == data_type_of(kind).made_up
        return FieldOrigin(kind, path if made_up else str(Path(path).resolve()), capture)

    @staticmethod
    def of_run(folder: Path, data: Path | None = None, *, remedy: str = GIVE_CAPTURE) -> FieldOrigin:
        """What the run of a field was trained on.

        Args:
            folder: of the run.
            data: that the user gives instead of it.
            remedy: of the error about data that the run may not name, see
                `luxel.viewer.scene_loading.capture_options.load_origin`.

        Raises:
            LuxelError: it may not name its data, or config.json is missing, damaged, or does not name the data.
        """
        body = RunFolder.read_body(folder)
        try:
            kind = validated(body["config"].get("field"), str)
            if "capture" in body:
                origin = load_origin(folder, data, remedy=remedy)
                return FieldOrigin(kind, origin.path, origin)
            given = validated(body.get("data"), Origin)
            stream = validated(body["data"].get("stream", False), bool)
            limits = Origin("", max_size=given.max_size, max_megapixels=given.max_megapixels)
            if data is not None:
                given.path = str(data)
            elif given.path != data_type_of(kind).made_up:
                require_own_file(folder, body, given.path, remedy, "data")
            return FieldOrigin(kind, given.path, limits, stream, folder)
        except JsonError as error:
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

    def open(
        self,
        on_progress: Callable[[str, float], None] | None = None,
        device: torch.device | None = None,
    ) -> FieldData:
        """Reads the data.

        Args:
            on_progress: called with (stage, fraction done in [0, 1]).
            device: where what is not read is computed; None: the GPU if luxel can use it, else the CPU.

        Raises:
            LuxelError: they are missing, damaged, or of another type.
        """
        return data_type_of(self.kind).open(self, on_progress, device)

    def about(self) -> dict[str, Any]:
        """The entries of config.json for data other than a capture."""
        limits = {"max_size": self.capture.max_size, "max_megapixels": self.capture.max_megapixels}
        return {"data": {"path": self.path, **limits, **({"stream": True} if self.stream else {})}}


@dataclass(frozen=True)
class DataType:
    """One type of data that applications are trained on (`Application.data_type`).

    Args:
        open: reads it.
        options: of `luxel train --field` that say how it is opened, by name.
        suffixes: of its files, lower case; empty: not recognised by suffix.
        made_up: name on the command line of an example that luxel generates, or None.
    """

    open: Callable[[FieldOrigin, Any, torch.device | None], FieldData]
    options: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    made_up: str | None = None


def _open_image(origin: FieldOrigin, on_progress: Any, device: torch.device | None) -> FieldData:
    if origin.stream:
        return FieldData(origin.name, _open_streamed(origin, device or best_device()), origin.about())
    if origin.path == DATA_TYPES["image"].made_up:
        from luxel.scenes.synthetic.landscape import landscape

        side = origin.capture.max_size or 1024
        return FieldData(origin.name, landscape(side, side), origin.about())
    if Path(origin.path).suffix.lower() in LINEAR:
        return FieldData(origin.name, _hdr_image(origin), origin.about())
    if Path(origin.path).suffix.lower() == ".npy":
        return FieldData(origin.name, _whole_array(origin), origin.about())
    from luxel.scenes.files.images.image_files import read_image

    options = origin.capture
    image = read_image(origin.path, options.max_size, options.max_megapixels)
    return FieldData(origin.name, image, origin.about())


def _open_streamed(origin: FieldOrigin, device: torch.device) -> TiledImage:
    """An image that stays on disk."""
    from luxel.scenes.files.large.tiled_images import CACHE, open_tiled, write_rows

    options, folder = origin.capture, origin.folder
    if origin.path != DATA_TYPES["image"].made_up:
        if options.max_size is not None:
            raise LuxelError("--max-size: an image that is streamed keeps its size.", "Leave it out.")
        image = open_tiled(origin.path, folder, print)
        if options.max_megapixels is not None and image.width * image.height > options.max_megapixels * 1e6:
            raise LuxelError(
                f"{origin.path}: the image has {image.width}x{image.height} pixels, more than --max-megapixels "
                f"{options.max_megapixels:g}.",
                "Raise that limit, or leave it out.",
            )
        return image
    assert folder is not None
    from luxel.scenes.synthetic.landscape import landscape_bands

    side, copy = options.max_size or 1024, folder / CACHE
    if not copy.is_file():
        bands = landscape_bands(side, side, device=device)
        write_rows(origin.path, copy, side, side, bands, print)
    return open_tiled(copy)


def _hdr_image(origin: FieldOrigin) -> HdrImage:
    """The linear colours of a Radiance HDR or OpenEXR file."""
    from luxel.scenes.files.exr.channels import SUFFIX
    from luxel.scenes.files.exr.values import read_exr
    from luxel.scenes.files.large.radiance_hdr import read_hdr
    from luxel.scenes.files.pixel_limit import set_max_megapixels

    if origin.capture.max_size is not None:
        raise LuxelError("--max-size: HDR images keep their size.", "Leave it out.")
    set_max_megapixels(origin.capture.max_megapixels)
    read = read_exr if Path(origin.path).suffix.lower() == SUFFIX else read_hdr
    return HdrImage(read(origin.path))


def _whole_array(origin: FieldOrigin) -> np.ndarray:
    """The image of a .npy file."""
    from luxel.scenes.files.large.tiled_images import open_tiled
    from luxel.scenes.files.pixel_limit import check_megapixels, set_max_megapixels

    if origin.capture.max_size is not None:
        raise LuxelError("--max-size: images from .npy files keep their size.", "Leave it out.")
    image = open_tiled(origin.path)
    set_max_megapixels(origin.capture.max_megapixels)
    check_megapixels(Path(origin.path), image.width, image.height)
    return image.read(0, 0, image.height, image.width)


def _open_mesh(origin: FieldOrigin, on_progress: Any, device: torch.device | None) -> FieldData:
    if origin.path == DATA_TYPES["mesh"].made_up:
        from luxel.scenes.synthetic.knot_mesh import ridged_knot

        return FieldData(origin.name, ridged_knot(), origin.about())
    from luxel.scenes.files.meshes.mesh_files import read_mesh

    return FieldData(origin.name, read_mesh(origin.path), origin.about())


def _open_volume(origin: FieldOrigin, on_progress: Any, device: torch.device | None) -> FieldData:
    if origin.path == DATA_TYPES["volume"].made_up:
        from luxel.scenes.synthetic.cloud import Cloud

        return FieldData(origin.name, Cloud(), origin.about())
    from luxel.scenes.files.volumes import read_volume

    return FieldData(origin.name, read_volume(origin.path), origin.about())


def _open_capture(origin: FieldOrigin, on_progress: Any, device: torch.device | None) -> FieldData:
    from luxel.render.fields.capture.posed_images import PosedImages

    opener = origin.capture
    opener.path = origin.path
    capture = opener.open(on_progress, device)
    behind = (1.0, 1.0, 1.0) if capture.cutout else (0.0, 0.0, 0.0)
    data = PosedImages(capture.train, capture.test, capture.points, background=behind)
    return FieldData(capture.name, data, opener.about(capture), capture.views, capture.up, behind)


DATA_TYPES: dict[str, DataType] = {
    "image": DataType(
        _open_image,
        options=("max_size", "max_megapixels", "stream"),
        suffixes=(".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".npy", *LINEAR),
        made_up="landscape",
    ),
    "mesh": DataType(_open_mesh, suffixes=(".ply", ".obj", ".glb", ".stl"), made_up="knot"),
    "volume": DataType(_open_volume, suffixes=(".npy", ".npz"), made_up="cloud"),
    "capture": DataType(_open_capture, options=("max_size", "max_megapixels", "holdout_every", "masks")),
}


def data_type_of(kind: str) -> DataType:
    """How the data of an application are opened."""
    return DATA_TYPES[application_type(kind).data_type]


def applications_with_option(name: str) -> list[str]:
    """The applications whose data take an option of `luxel train --field`."""
    return [kind for kind, cls in application_types() if name in DATA_TYPES[cls.data_type].options]


def require_kind(kind: str, path: str) -> None:
    """Refuses a file whose suffix belongs to another data type, before anything is read.

    Raises:
        LuxelError: the suffix belongs to another data type.
    """
    suffix = Path(path).suffix.lower()
    if suffix in data_type_of(kind).suffixes:
        return
    others = [other for other, cls in application_types() if suffix in DATA_TYPES[cls.data_type].suffixes]
    if others:
        raise LuxelError(
            f"{path}: a field of {kind!r} is not trained on {suffix} files.",
            f"Did you mean --field {' or '.join(others)}?",
        )
