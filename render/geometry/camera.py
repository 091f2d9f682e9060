"""Cameras and posed images. Every geometric convention of luxel is stated here, once.

* Camera axes follow OpenCV: x right, y down, z forward. ``world_to_cam`` maps world points to them.
* Pixel (column i, row j) has its centre at (i + 0.5, j + 0.5); the image spans [0, W] x [0, H], so the
  centre of an image is cx = W / 2, cy = H / 2 (as COLMAP has it).
* Quaternions are wxyz, angles radians, times seconds; lengths are in the units of the capture.
* Colours are in [0, 1] and in the colour space of the images (sRGB): nothing is linearised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from luxel.render.geometry.lens import NUMBERS as LENS_NUMBERS
from luxel.render.geometry.lens import radial_lens
from luxel.render.geometry.shutter import NUMBERS as SHUTTER_NUMBERS

MIN_ALPHA = 8  # of 255 from which on a pixel of an image is visible


@dataclass(frozen=True)
class Camera:
    """A camera, or a batch of C cameras of one image size.

    Args:
        world_to_cam: rigid transform of world points into OpenCV camera axes, [4, 4] or [C, 4, 4].
        intrinsics: fx, fy, cx, cy in pixels, [4] or [C, 4].
        width, height: image size in pixels.
        near, far: distances along z (capture units) outside of which nothing is rendered; of a fisheye, distances from
            it.
        lens: rows of `luxel.render.geometry.lens`, [8] or [C, 8]; None: a pinhole.
        shutter: rows of `luxel.render.geometry.shutter`, [8] or [C, 8], of cameras whose rows are read while they move;
            ``world_to_cam`` is then the pose at the middle of the readout. None: a global shutter.
    """

    world_to_cam: Tensor
    intrinsics: Tensor
    width: int
    height: int
    near: float = 0.01
    far: float = 1e10
    lens: Tensor | None = None
    shutter: Tensor | None = None

    def __post_init__(self) -> None:
        if self.world_to_cam.shape[-2:] != (4, 4) or self.world_to_cam.dim() not in (2, 3):
            raise ValueError(f"world_to_cam must be [4, 4] or [C, 4, 4], got {list(self.world_to_cam.shape)}")
        if self.intrinsics.shape != (*self.world_to_cam.shape[:-2], 4):
            raise ValueError(
                f"intrinsics must be {[*self.world_to_cam.shape[:-2], 4]} (fx, fy, cx, cy), "
                f"got {list(self.intrinsics.shape)}"
            )
        if self.lens is not None and self.lens.shape != (*self.world_to_cam.shape[:-2], LENS_NUMBERS):
            raise ValueError(
                f"lens must be {[*self.world_to_cam.shape[:-2], LENS_NUMBERS]}, got {list(self.lens.shape)}"
            )
        if self.shutter is not None and self.shutter.shape != (
            *self.world_to_cam.shape[:-2],
            SHUTTER_NUMBERS,
        ):
            raise ValueError(
                f"shutter must be {[*self.world_to_cam.shape[:-2], SHUTTER_NUMBERS]}, got {list(self.shutter.shape)}"
            )
        if self.width < 1 or self.height < 1:
            raise ValueError(f"width and height must be at least 1, got {self.width}x{self.height}")

    @property
    def batched(self) -> bool:
        """Whether this holds a batch of cameras ([C, 4, 4])."""
        return self.world_to_cam.dim() == 3

    @property
    def cam_to_world(self) -> Tensor:
        """The inverse transform, [4, 4] or [C, 4, 4]."""
        return _inverse(self.world_to_cam)

    @property
    def position(self) -> Tensor:
        """The camera centre in world coordinates, [3] or [C, 3]."""
        return -(self.world_to_cam[..., :3, :3].mT @ self.world_to_cam[..., :3, 3:])[..., 0]

    def to(self, target: torch.device | torch.dtype | str) -> Camera:
        """The same camera on another device or in another float type."""
        return replace(
            self,
            world_to_cam=self.world_to_cam.to(target),
            intrinsics=self.intrinsics.to(target),
            lens=None if self.lens is None else self.lens.to(target),
            shutter=None if self.shutter is None else self.shutter.to(target),
        )

    @property
    def calibration(self) -> Tensor:
        """Intrinsics, followed by the lens where there is one: [4] or [12], or [C, 4] or [C, 12]."""
        return self.intrinsics if self.lens is None else torch.cat([self.intrinsics, self.lens], -1)

    @staticmethod
    def from_calibration(
        world_to_cam: Tensor, calibration: Tensor, width: int, height: int, near: float, far: float
    ) -> Camera:
        """The camera of a `calibration`."""
        lens = calibration[..., 4:] if calibration.shape[-1] > 4 else None
        return Camera(world_to_cam, calibration[..., :4], width, height, near, far, lens)

    def one(self, index: int) -> Camera:
        """A single camera of a batch."""
        return replace(
            self,
            world_to_cam=self.world_to_cam[index],
            intrinsics=self.intrinsics[index],
            lens=None if self.lens is None else self.lens[index],
            shutter=None if self.shutter is None else self.shutter[index],
        )

    def scaled(self, factor: float) -> Camera:
        """The camera of the same image resized by ``factor`` (rounded to whole pixels, at least 1)."""
        return self.resized(max(1, round(self.width * factor)), max(1, round(self.height * factor)))

    def resized(self, width: int, height: int) -> Camera:
        """The camera of the same image resized to width x height pixels."""
        ratio = self.intrinsics.new_tensor([width / self.width, height / self.height] * 2)
        return replace(self, intrinsics=self.intrinsics * ratio, width=width, height=height)

    def cropped(self, left: int, top: int, width: int, height: int) -> Camera:
        """The camera of a part of the image, whose corner is at column ``left`` and row ``top``; it has no shutter.

        Raises:
            ValueError: the camera has a rolling shutter, which needs all rows.
        """
        if self.shutter is not None:
            raise ValueError("cropped needs a camera with a global shutter, got a rolling one")
        corner = self.intrinsics.new_tensor([0, 0, left, top])
        return replace(self, intrinsics=self.intrinsics - corner, width=width, height=height)

    @staticmethod
    def stack(cameras: Sequence[Camera]) -> Camera:
        """A batch from single cameras of one size; near and far are taken from the first.

        Where some have a lens, others get that of a pinhole; where some have a rolling shutter, others one at rest.

        Raises:
            ValueError: no cameras, or different image sizes.
        """
        if not cameras:
            raise ValueError("cameras must hold at least one camera, got none")
        sizes = {(c.width, c.height) for c in cameras}
        if len(sizes) > 1:
            raise ValueError(f"cameras must have one image size, got {sorted(sizes)}")
        calibration = calibrations(cameras)
        return replace(
            cameras[0],
            world_to_cam=torch.stack([c.world_to_cam for c in cameras]),
            intrinsics=calibration[:, :4],
            lens=calibration[:, 4:] if calibration.shape[1] > 4 else None,
            shutter=_shutters(cameras),
        )

    @staticmethod
    def look_at(
        eye: Sequence[float],
        target: Sequence[float],
        up: Sequence[float] = (0.0, 0.0, 1.0),
        *,
        fov_y: float = math.radians(50),
        width: int = 640,
        height: int = 480,
    ) -> Camera:
        """A camera at ``eye`` that sees ``target`` in its centre; ``up`` points up in the image.

        Args:
            eye, target, up: world coordinates.
            fov_y: vertical field of view in radians.
            width, height: pixels.

        Raises:
            ValueError: eye equals target, or up is parallel to the viewing direction.
        """
        origin, upward = np.asarray(eye, float), np.asarray(up, float)
        forward = np.asarray(target, float) - origin
        right = np.cross(forward, upward)
        if not np.linalg.norm(forward) > 0 or not np.linalg.norm(right) > 0:
            raise ValueError(
                f"target must differ from eye, and up must not be parallel to the view: "
                f"got eye {list(eye)}, target {list(target)}, up {list(up)}"
            )
        forward, right = forward / np.linalg.norm(forward), right / np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward])
        world_to_cam = np.eye(4)
        world_to_cam[:3, :3], world_to_cam[:3, 3] = rotation, -rotation @ origin
        focal = 0.5 * height / math.tan(0.5 * fov_y)
        return Camera(
            torch.tensor(world_to_cam, dtype=torch.float32),
            torch.tensor([focal, focal, 0.5 * width, 0.5 * height], dtype=torch.float32),
            width,
            height,
        )


def calibrations(cameras: Sequence[Camera]) -> Tensor:
    """`Camera.calibration` of single cameras, [C, 4], or [C, 12] where one has a lens: others get that of a pinhole."""
    if all(camera.lens is None for camera in cameras):
        return torch.stack([camera.intrinsics for camera in cameras])
    straight = radial_lens()
    rows = [
        camera if camera.lens is not None else replace(camera, lens=straight.to(camera.intrinsics))
        for camera in cameras
    ]
    return torch.stack([camera.calibration for camera in rows])


def _shutters(cameras: Sequence[Camera]) -> Tensor | None:
    """Those of single cameras, [C, 8]; where some have none, theirs do not move."""
    if all(camera.shutter is None for camera in cameras):
        return None
    rows = (c.intrinsics.new_zeros(SHUTTER_NUMBERS) if c.shutter is None else c.shutter for c in cameras)
    return torch.stack(list(rows))


def _inverse(rigid: Tensor) -> Tensor:
    """The inverse of rigid transforms, [..., 4, 4]."""
    rotation = rigid[..., :3, :3].mT
    out = torch.zeros_like(rigid)
    out[..., :3, :3] = rotation
    out[..., :3, 3:] = -rotation @ rigid[..., :3, 3:]
    out[..., 3, 3] = 1
    return out


@dataclass
class Pixels:
    """One image as bytes on the host.

    Args:
        rgb: colours, uint8 [H, W, 3]; straight, not multiplied by alpha.
        alpha: coverage, uint8 [H, W]; the image is composited onto the background with it. None: opaque.
        weight: uint8 [H, W], 0 where a pixel counts neither for the loss nor for a metric. None: all count.
    """

    rgb: np.ndarray
    alpha: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def counts(self) -> bool:
        """Whether any pixel has a weight and an alpha of at least `MIN_ALPHA`: others have nothing to compare with."""
        return self._counts_at(8) or self._counts_at(1)

    def _counts_at(self, stride: int) -> bool:
        """`counts` of every Nth pixel across and down."""
        visible = None if self.alpha is None else self.alpha[::stride, ::stride] >= MIN_ALPHA
        weighted = None if self.weight is None else self.weight[::stride, ::stride] > 0
        if visible is None or weighted is None:
            return all(bool(plane.any()) for plane in (visible, weighted) if plane is not None)
        return bool((visible & weighted).any())


@dataclass
class View:
    """A posed image: what the trainer fits and the evaluation compares with.

    Args:
        name: unique within its capture, shown to the user (usually the file name).
        camera: single camera on the CPU, of exactly the size of the pixels.
        read: gives the pixels, as the camera images them; may be slow (decodes a file) or cached.
        time: seconds, or [0, 1] where the capture says so; 0 for static scenes.
        path: the file behind it, where there is one.
        depth: gives what is known of the depth along z in capture units, float32 [H, W], 0 where it is not known; None:
            nothing is.
        stops: exposure by its EXIF data, relative to other views of the capture; None: unknown.
        sharpness: of the image relative to those of views next to it, 1 where it is as sharp; None: not measured.
        frame_interval: seconds between frames of the film that it is one of; None: unknown.
        distant: whether the camera lies far from all others, so that it does not count for the size of the scene.
    """

    name: str
    camera: Camera
    read: Callable[[], Pixels]
    time: float = 0.0
    path: Path | None = None
    depth: Callable[[], np.ndarray] | None = None
    stops: float | None = None
    sharpness: float | None = None
    frame_interval: float | None = None
    distant: bool = False


def near_views(views: Sequence[View]) -> Sequence[View]:
    """Those that are not `View.distant`, which tell the size of a scene; all where all are."""
    return [view for view in views if not view.distant] or views


def poses_of(views: Iterable[View]) -> np.ndarray:
    """Camera to world of each view, float64 [V, 4, 4]: all at once, as a capture has hundreds."""
    matrices = [view.camera.world_to_cam for view in views]
    return _inverse(torch.stack(matrices).double()).cpu().numpy() if matrices else np.zeros((0, 4, 4))


def pixel_count(views: Iterable[View]) -> int:
    """Number of pixels of all views together."""
    return sum(view.camera.width * view.camera.height for view in views)


@dataclass
class Points:
    """A coloured point cloud on the host: xyz float32 [P, 3] in world coordinates, rgb uint8 [P, 3].

    As capture formats read it, xyz may be float64: `luxel.scenes.open` shifts large coordinates first.
    """

    xyz: np.ndarray
    rgb: np.ndarray
