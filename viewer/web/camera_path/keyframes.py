"""Keyframes of a camera path, and the smooth path through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera
from luxel.scenes.paths import CameraPath, interpolate, interpolate_times

FPS = 30.0
MAX_OPENED = 16  # keyframes that an opened path becomes at most


MAX_KEYFRAMES = 500
MIN_SECONDS, MAX_SECONDS = 0.1, 600.0  # duration of a path


@dataclass(frozen=True, eq=False)  # equal is the same one: cameras consist of tensors
class Keyframe:
    """A camera of the size of the page's canvas, and the time that the page showed (0 in static scenes)."""

    camera: Camera
    time: float = 0.0


@dataclass(frozen=True)
class KeyframePath:
    """The camera path of a scene, as it is made in a page.

    Args:
        keyframes: in their order.
        seconds: duration of the path.
        loop: returns from the last keyframe to the first.
    """

    keyframes: tuple[Keyframe, ...] = ()
    seconds: float = 4.0
    loop: bool = False


def smooth_path(
    keyframes: Sequence[Keyframe],
    seconds: float,
    *,
    loop: bool = False,
    timed: bool = False,
    fps: float = FPS,
) -> CameraPath:
    """A smooth path through keyframes.

    Args:
        keyframes: at least two.
        seconds: duration of the path.
        loop: returns from the last keyframe to the first.
        timed: gives the path the times of the keyframes.
        fps: frames per second.

    Raises:
        LuxelError: there are fewer than two keyframes.
    """
    if len(keyframes) < 2:
        raise LuxelError("a camera path needs at least two keyframes.", "Move the camera and add another.")
    frames = max(2, round(seconds * fps))
    cameras = interpolate([keyframe.camera for keyframe in keyframes], frames, loop)
    times: list[float] = []
    if timed:
        times = [keyframe.time for keyframe in keyframes]
        times = (
            interpolate_times([*times, times[0]], frames + 1)[:-1]
            if loop
            else interpolate_times(times, frames)
        )
    return CameraPath(cameras, fps, times)


def keyframes_of(path: CameraPath) -> tuple[list[Keyframe], float]:
    """Keyframes that follow a path, its first and last camera among them, and its duration in seconds."""
    count = len(path.cameras)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MAX_OPENED)).round().astype(int))
    times = path.times or [0.0] * count
    return [Keyframe(path.cameras[i], times[i]) for i in chosen], count / path.fps
