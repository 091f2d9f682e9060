"""A view as the fragment of an address, as pages copy it (key U) and `luxel render --view` reads it.

The same as viewer/web/shell/static/link.js: ``position=1,2,3&target=0,0,0&up=0,0,1&fov=0.9&time=0.5&output=depth``, in
the world of the scene; fov is vertical, in radians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import parse_qs

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera

MAX_COORDINATE = 1e9
MAX_LENGTH = 2000  # characters
MIN_FOV, MAX_FOV = 0.01, 3.0  # radians
MAX_TIME = 1e12
REMEDY = "Copy a link in the viewer (key U), and put it in quotation marks."


@dataclass(frozen=True)
class LinkedView:
    """A view of a link.

    Args:
        position, target, up: world coordinates of the scene, [3].
        fov_y: vertical field of view, radians.
        time: of a dynamic scene; None: the link has none.
    """

    position: tuple[float, ...]
    target: tuple[float, ...]
    up: tuple[float, ...]
    fov_y: float
    time: float | None = None

    def camera(self, width: int, height: int) -> Camera:
        """The camera of this view in an image of width x height pixels."""
        return Camera.look_at(
            self.position, self.target, self.up, fov_y=self.fov_y, width=width, height=height
        )


def encode_view(position: np.ndarray, rotation: np.ndarray, fov_y: float, time: float | None = None) -> str:
    """The fragment of a view.

    Args:
        position: camera centre, world coordinates, float64 [3].
        rotation: camera axes in the world as columns, float64 [3, 3].
        fov_y: vertical field of view, radians.
        time: of a dynamic scene; None: there is none.
    """
    distance = max(1.0, float(np.abs(position).max()))  # so that the digits of the target suffice
    vectors = {"position": position, "target": position + distance * rotation[:, 2], "up": -rotation[:, 1]}
    parts = [f"{name}={','.join(map(_short, vector))}" for name, vector in vectors.items()]
    parts.append(f"fov={fov_y:.8g}")
    return "&".join(parts if time is None else [*parts, f"time={time:.9g}"])


def decode_view(link: str) -> LinkedView:
    """The view of a link or of its fragment.

    Raises:
        LuxelError: it is none.
    """
    text = link.rpartition("#")[2]
    try:
        if len(text) > MAX_LENGTH:
            raise ValueError("it is too long")
        fields = {name: values[0] for name, values in parse_qs(text).items()}
        position, target, up = (_vector(fields, name) for name in ("position", "target", "up"))
        fov = _number(fields.get("fov"), "fov", MIN_FOV, MAX_FOV)
        time = _number(fields["time"], "time", -MAX_TIME, MAX_TIME) if "time" in fields else None
        view = LinkedView(position, target, up, fov, time)
        forward = np.subtract(target, position)
        across = float(np.linalg.norm(np.cross(forward, up)))
        if not across > 1e-6 * float(np.linalg.norm(forward) * np.linalg.norm(up)):
            raise ValueError("position and target are the same, or up points along the direction of view")
    except ValueError as error:
        raise LuxelError(f"--view: this is no link of a view: {error}.", REMEDY) from None
    return view


def _short(x: float) -> str:
    return f"{x if abs(x) > 1e-12 else 0.0:.8g}"


def _vector(fields: dict[str, str], name: str) -> tuple[float, ...]:
    parts = fields.get(name, "").split(",")
    if len(parts) != 3:
        raise ValueError(f"{name} needs three numbers")
    return tuple(_number(part, name, -MAX_COORDINATE, MAX_COORDINATE) for part in parts)


def _number(text: str | None, name: str, low: float, high: float) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}")
    return value
