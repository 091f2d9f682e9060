"""The registry of capture formats."""

from __future__ import annotations

from pathlib import Path

from luxel.scenes.captures.cameras.synchronised import CAMERAS
from luxel.scenes.captures.capture_format import CaptureFormat
from luxel.scenes.captures.formats.colmap import COLMAP
from luxel.scenes.captures.formats.llff import LLFF
from luxel.scenes.captures.formats.polycam import POLYCAM
from luxel.scenes.captures.formats.transforms import TRANSFORMS
from luxel.scenes.captures.unposed.image_list import IMAGE_LIST
from luxel.scenes.captures.unposed.video import VIDEO
from luxel.scenes.errors import CaptureError

# In the order in which they are tried: synchronised cameras have files of other formats as their calibration, and
# images are last, because other formats come with folders of images too.
CAPTURE_FORMATS: list[CaptureFormat] = [CAMERAS, TRANSFORMS, COLMAP, LLFF, POLYCAM, VIDEO, IMAGE_LIST]


def register_capture_format(capture_format: CaptureFormat) -> None:
    """Adds a format, which is tried before those already registered.

    Raises:
        ValueError: a format of this name is registered.
    """
    if any(other.name == capture_format.name for other in CAPTURE_FORMATS):
        raise ValueError(f"a capture format named {capture_format.name!r} is already registered")
    CAPTURE_FORMATS.insert(0, capture_format)


def detect_format(path: Path) -> CaptureFormat:
    """The first registered format that matches a path.

    Args:
        path: an existing folder or file.

    Raises:
        CaptureError: no format matches; the message has the reason of each.
    """
    reasons = []
    for capture_format in CAPTURE_FORMATS:
        reason = capture_format.mismatch(path)
        if reason is None:
            return capture_format
        reasons.append(f"{capture_format.name}: {reason}")
    what = "folder" if path.is_dir() else "file"
    raise CaptureError(
        f"{path}: this {what} has no known capture format ({'; '.join(reasons)}).",
        "Give a capture in one of these formats.",
    )
