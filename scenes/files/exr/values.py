"""Reading of whole OpenEXR files: linear colours, and depth maps."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from luxel.scenes.errors import CaptureError
from luxel.scenes.files.exr.channels import ExrFile, is_exr, listed
from luxel.scenes.files.exr.colours import linear_colours
from luxel.scenes.files.pixel_limit import check_megapixels
from luxel.scenes.files.reading import read_bytes, reading

REMEDY = "Copy the file again, or export it again as OpenEXR."
NOTHING = 1e10  # depth that Blender gives to pixels that show nothing; stored in half floats it is the largest of them
DEPTHS = ("z", "depth")  # names of channels of depth, in lower case
Values = TypeVar("Values")


def read_exr(path: str | Path) -> np.ndarray:
    """The linear colours of an OpenEXR image, over black where it has alpha.

    Args:
        path: of the file; of several layers of colours see `luxel.scenes.files.exr.colours.chosen_colours`.

    Returns:
        float32 [H, W, 3] with the primaries of sRGB; negative values, as filters and other primaries give them, are 0.

    Raises:
        CaptureError: the file is missing, damaged, above the limit of megapixels, or has no colours.
    """
    rgb = _read(Path(path), "an OpenEXR image", lambda file: linear_colours(file)[0])
    return np.maximum(rgb, 0, out=rgb)


def read_exr_depth(path: Path, channel: str | None = None) -> np.ndarray:
    """A channel of depth of an OpenEXR file.

    Args:
        path: of the file.
        channel: its name; None: the channel Z or Depth, of one layer or without layer; else the only channel; else
            colours R, G, B that are equal.

    Returns:
        float32 or uint32 [H, W]; 0 where Blender says that nothing is visible.

    Raises:
        CaptureError: the file is missing, damaged, above the limit of megapixels, or it is not clear which channel has
            the depth.
    """

    def depth(file: ExrFile) -> np.ndarray:
        first, *others = file.read(_chosen_depth(path, file.names, channel))
        if any(not np.array_equal(first, other, equal_nan=True) for other in others):
            raise _unclear(path, "colours and no depth", file.names)
        if first.dtype.kind != "f":
            return first
        most = float(np.finfo(np.float16).max) if first.dtype.itemsize == 2 else NOTHING * (1 - 1e-6)
        return np.where(first < most, first, np.float32(0)).astype(np.float32)

    return _read(path, "an OpenEXR file of depth", depth)


def _read(path: Path, what: str, values: Callable[[ExrFile], Values]) -> Values:
    data = read_bytes(path)
    with reading(path, what, REMEDY):
        if not is_exr(data):
            raise ValueError("not an OpenEXR file")
        file = ExrFile(path, io.BytesIO(data))
        check_megapixels(path, *file.largest)
        return values(file)


def _chosen_depth(path: Path, names: Sequence[str], channel: str | None) -> list[str]:
    """Names of the channels of depth: one, or three of grey colours."""
    if channel is not None:
        if channel not in names:
            raise CaptureError(
                f"{path}: there is no channel {channel!r}, but {listed(names)}.", "Name one of them, or none."
            )
        return [channel]
    layers: dict[str, dict[str, str]] = {}
    for name in names:
        layer, _, base = name.rpartition(".")
        layers.setdefault(layer, {})[base.lower()] = name
    # X, Y, Z are normals or positions.
    usable = {
        layer: have[base]
        for layer, have in layers.items()
        for base in DEPTHS
        if base in have and "x" not in have
    }
    if "" in usable or len(usable) == 1:
        return [usable.get("", next(iter(usable.values())))]
    if len(usable) > 1:
        raise _unclear(path, "several channels of depth", names)
    if len(names) == 1:
        return list(names)
    grey = [have for have in layers.values() if set("rgb") <= set(have)]
    if len(grey) == 1 and len(names) <= 4:
        return [grey[0][base] for base in "rgb"]
    raise _unclear(path, "no channel of depth", names)


def _unclear(path: Path, what: str, names: Sequence[str]) -> CaptureError:
    return CaptureError(
        f"{path}: the file has {what}; its channels are {listed(names)}.",
        "Name the channel of depth with --depth-channel, or save channel Z alone.",
    )
