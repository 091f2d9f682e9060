"""The messages that pages send and their fields: each check returns the value to use or refuses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from luxel.viewer.web.access.control_values import Refused, finite
from luxel.viewer.web.navigate import MAX_COORDINATE, clamped_fov, clamped_size

MAX_UPLOAD = 256 << 20  # bytes
MAX_MODIFIER = 32  # characters
UPLOAD_PART = 512 * 1024  # bytes of one part of an upload, except the last

Field = Callable[[Any], Any]


def unchecked(value: Any) -> Any:
    """Taken as it is: the check of the complete message looks at it."""
    return value


def number() -> Field:
    """A finite number."""
    return finite


def integer(low: int, high: int) -> Field:
    """An integer in [low, high]."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Refused("an integer out of range")
        return value

    return check


def vector(length: int) -> Field:
    """``length`` finite numbers of at most MAX_COORDINATE."""

    def check(value: Any) -> list[float]:
        if not isinstance(value, list | tuple) or len(value) != length:
            raise Refused("a vector of another length")
        numbers = [finite(x) for x in value]
        if any(abs(x) > MAX_COORDINATE for x in numbers):
            raise Refused("a coordinate out of range")
        return numbers

    return check


def text(limit: int, default: str | None = None) -> Field:
    """A string of at most ``limit`` characters; ``default`` where there is none."""

    def check(value: Any) -> str:
        value = default if value is None else value
        if not isinstance(value, str) or len(value) > limit:
            raise Refused("a text that is none or too long")
        return value

    return check


def one_of(*choices: str) -> Field:
    """One of several strings."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Refused("a choice that there is not")
        return value

    return check


def optional(field: Field) -> Field:
    """None, or what ``field`` accepts."""
    return lambda value: None if value is None else field(value)


def named(*names: str) -> Field:
    """A mapping with exactly these names."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or set(value) != set(names):
            raise Refused(f"other properties than {', '.join(names)}")
        return value

    return check


_modifier = optional(text(MAX_MODIFIER))
_node = {"name": text(1024), "owner": text(64, default="")}

SHAPES: dict[str, dict[str, Field]] = {
    "ViewerCameraMessage": {
        "wxyz": vector(4),
        "position": vector(3),
        "fov": number(),
        "near": unchecked,
        "far": unchecked,
        "image_height": number(),
        "image_width": number(),
        "look_at": vector(3),
        "up_direction": vector(3),
    },
    "GuiUpdateMessage": {"uuid": text(64), "updates": named("value")},
    "GuiButtonHoldMessage": {"uuid": text(64), "frequency": number()},
    "GuiFormSubmitMessage": {"uuid": text(64)},
    "GuiFormDirtyMessage": {"uuid": text(64)},
    "CommandTriggerMessage": {"uuid": text(64)},
    "ScenePointerMessage": {
        "event_type": one_of("click", "rect-select"),
        "ray_origin": optional(vector(3)),
        "ray_direction": optional(vector(3)),
        "screen_pos": unchecked,
        "modifier": _modifier,
    },
    "SceneNodeClickMessage": {
        **_node,
        "instance_index": optional(integer(0, 2**31)),
        "ray_origin": vector(3),
        "ray_direction": vector(3),
        "screen_pos": vector(2),
        "modifier": _modifier,
    },
    "SceneNodeDragMessage": {
        **_node,
        "phase": one_of("start", "update", "end"),
        "instance_index": optional(integer(0, 2**31)),
        "start_position": vector(3),
        "start_screen_pos": vector(2),
        "end_position": vector(3),
        "end_screen_pos": vector(2),
        "button": one_of("left", "middle", "right"),
        "modifier": _modifier,
    },
    "TransformControlsUpdateMessage": {**_node, "wxyz": vector(4), "position": vector(3)},
    "TransformControlsDragStartMessage": _node,
    "TransformControlsDragEndMessage": _node,
    "LocalStorageGetItemResponseMessage": {
        "value": optional(text(2**16)),
        "error": optional(text(1024)),
        "request_uuid": text(64),
    },
    "GetRenderResponseMessage": {"payload": unchecked, "render_uuid": text(64)},
    "FileTransferStartUpload": {
        "source_component_uuid": text(64),
        "transfer_uuid": text(64),
        "filename": text(255),
        "mime_type": text(255),
        "part_count": integer(0, MAX_UPLOAD // UPLOAD_PART),
        "size_bytes": integer(0, MAX_UPLOAD),
    },
    "FileTransferPart": {
        "source_component_uuid": text(64),
        "transfer_uuid": text(64),
        "part_index": integer(0, MAX_UPLOAD // UPLOAD_PART),
        "content": unchecked,
    },
}


def camera_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a camera that need more than a finite number.

    Args:
        fields: ``wxyz`` [4], ``fov`` (radians), ``near``, ``far``, ``image_width``, ``image_height``, finite but for
            ``near`` and ``far``, which luxel does not use.

    Returns:
        Those that change: unit rotation, field of view and size clamped.

    Raises:
        Refused: the rotation is none.
    """
    norm = math.hypot(*fields["wxyz"])
    if not 1e-6 < norm < 1e6:
        raise Refused("a rotation that is none")
    width, height = clamped_size(fields["image_width"], fields["image_height"])
    return {
        "wxyz": [x / norm for x in fields["wxyz"]],
        "fov": clamped_fov(fields["fov"]),
        "near": _distance(fields["near"], 0.01),
        "far": _distance(fields["far"], 1000.0),
        "image_width": width,
        "image_height": height,
    }


def _distance(value: Any, default: float) -> float:
    usable = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if usable else default
