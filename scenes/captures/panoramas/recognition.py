"""Which images and videos are panoramas: by their shape and metadata, or because an option says so.

Sources: Google's Photo Sphere XMP metadata (GPano), Spherical Video V1 (GSpherical, in a uuid box) and V2 (sv3d box).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

from luxel.scenes.captures.panorama_options import PanoramaOptions
from luxel.scenes.captures.panoramas.seam import borders_meet
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.images.image_decoding import opened_header
from luxel.scenes.files.reading import reading

MARK = re.compile(rb"ProjectionType\s*(?:=\s*[\"']|>)\s*equirectangular", re.IGNORECASE)
MAX_METADATA = 1 << 24  # bytes of a video's index that are looked through
MAX_BOXES = 4096  # of a video before its index
TOLERANCE = 0.01  # of the ratio of width and height, 2
OPTION = "--panorama.projection equirectangular"
APART = "Put panoramas and other images into folders of their own."


def is_two_to_one(width: int, height: int) -> bool:
    """Whether an image has the shape of 360 by 180 degrees."""
    return abs(width - 2 * height) <= TOLERANCE * width


def is_marked(path: Path) -> bool:
    """Whether an image is of twice its height in width, and its XMP metadata says that it is equirectangular.

    Raises:
        CaptureError: the file is no image.
    """
    with opened_header(path) as image:
        if not is_two_to_one(image.width, image.height):
            return False
        given = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
        if not given and image.format == "TIFF":
            given = getattr(image, "tag_v2", {}).get(700, b"")
    data = given.encode("utf-8", "replace") if isinstance(given, str) else given
    return isinstance(data, bytes) and MARK.search(data) is not None


def are_panoramas(files: Sequence[Path], options: PanoramaOptions) -> bool:
    """Whether images are panoramas.

    Args:
        files: of one folder.
        options: ``projection`` decides, or leaves it to the metadata.

    Raises:
        CaptureError: some are and others are not, or an image has another shape than panoramas have.
    """
    if options.projection == "perspective" or not files:
        return False
    if options.projection == "equirectangular":
        for file in files:
            with opened_header(file) as image:
                width, height = image.size
            if not is_two_to_one(width, height):
                raise CaptureError(
                    f"{file}: an equirectangular panorama is twice as wide as high, this image has {width}x{height} "
                    "pixels.",
                    APART,
                )
        return True
    if not is_marked(files[0]):
        return False
    other = next((file for file in files if not is_marked(file)), None)
    if other is not None:
        raise CaptureError(f"{other}: this is no panorama, but {files[0].name} is one.", APART)
    return True


def have_shape(files: Sequence[Path]) -> bool:
    """Whether all images are twice as wide as high."""
    for file in files:
        with opened_header(file) as image:
            if not is_two_to_one(image.width, image.height):
                return False
    return bool(files)


def seem_panoramas(files: Sequence[Path], warnings: list[str]) -> bool:
    """Whether images without metadata are taken for panoramas, by their shape and their borders.

    Args:
        files: of one folder.
        warnings: gets a sentence where they are, and where they may be.

    Raises:
        CaptureError: an image cannot be read.
    """
    if not have_shape(files):
        return False
    meet, uniform = borders_meet(files)
    if not meet:
        return False
    reason = "The images are twice as wide as high, and their left and right borders continue each other"
    if uniform:
        warnings.append(
            f"{reason}: they are taken for panoramas of 360 degrees. If they are none, give --panorama.projection "
            "perspective."
        )
        return True
    warnings.append(f"{reason}. If they are panoramas of 360 degrees: {OPTION}.")
    return False


def is_panorama_video(path: Path) -> bool:
    """Whether an MP4 or QuickTime file says that its video is equirectangular.

    Raises:
        CaptureError: it cannot be read.
    """
    with reading(path, "a video", "Copy the video again."):
        index = _movie_box(path)
    if MARK.search(index):
        return True
    at = index.find(b"sv3d")
    return at >= 0 and b"equi" in index[at : at + 512]


def _movie_box(path: Path) -> bytes:
    """The first `MAX_METADATA` bytes of the moov box of a file; nothing where it has none."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        position = 0
        for _ in range(MAX_BOXES):
            if position + 16 > size:
                break
            file.seek(position)
            length, name, longer = struct.unpack(">I4sQ", file.read(16))
            length = longer if length == 1 else size - position if length == 0 else length
            if name == b"moov":
                file.seek(position)
                return file.read(min(length, MAX_METADATA))
            if length < 8:
                return b""
            position += length
    return b""
