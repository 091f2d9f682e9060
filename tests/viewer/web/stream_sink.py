"""What stands in for a page and its renderer in the tests of the loop behind a page."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.camera import Camera
from luxel.render.primitives import Gaussians
from luxel.viewer.bench.view.frames import TURN, PreparedFrames
from luxel.viewer.web.navigate import Pose
from luxel.viewer.web.transport.encoders import as_array
from luxel.viewer.web.transport.sinks import FrameInfo


class Sink:
    """Keeps what a page would have shown."""

    takes_tensors = False

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []
        self.qualities: list[int] = []
        self.infos: list[FrameInfo] = []
        self.arrived = threading.Condition()

    def wait(self) -> None:
        pass

    def send(self, image: np.ndarray | Tensor, quality: int, info: FrameInfo) -> None:
        with self.arrived:
            self.images.append(as_array(image))
            self.infos.append(info)
            self.qualities.append(quality)
            self.arrived.notify_all()

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        with self.arrived:
            return self.arrived.wait_for(condition, seconds)


class Frame:
    def __init__(self, camera: Camera, value: float) -> None:
        self.rgb = torch.full((camera.height, camera.width, 3), value)
        self.alpha = self.rgb[..., 0]


def flat(gaussians: Gaussians, camera: Camera, **_: Any) -> Frame:
    """An image as grey as the camera is far along x."""
    return Frame(camera, float(camera.position[0]))


def pose(x: float = 0.0, width: int = 64, height: int = 48) -> Pose:
    return Pose(np.array([1.0, 0, 0, 0]), np.array([x, 0, 0]), 1.0, width, height)


def shifting_images(count: int, width: int = 320, height: int = 240) -> list[np.ndarray]:
    """Sections of one coloured image, uint8 [H, W, 3], each a few pixels beside the one before."""
    frames = PreparedFrames(width, height, moving=True)
    cameras = (
        Camera.look_at((math.cos(angle), math.sin(angle), 0.0), (0, 0, 0), width=width, height=height)
        for angle in (2 * math.pi * k / TURN for k in range(count))
    )
    return [(frames(Gaussians.empty(0), camera).rgb.numpy() * 255).astype(np.uint8) for camera in cameras]
