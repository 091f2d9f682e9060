"""Camera poses of a page: where it begins, flights to views, centre, size and up direction of the scene."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import viser.transforms as vtf
from torch import Tensor
from viser._messages import (
    SetCameraFovMessage,
    SetCameraLookAtMessage,
    SetCameraPositionMessage,
    SetCameraUpDirectionMessage,
)

from luxel.render.geometry.camera import Camera, View, near_views, poses_of
from luxel.render.geometry.lens_views import vertical_field
from luxel.viewer.web.densest import standpoint

MAX_SIDE = 4096  # pixels of an image along one axis
MAX_PIXELS = 4096 * 2304  # of an image: what the largest common screens show
MIN_FOV, MAX_FOV = 0.01, 3.0  # radians
WIDENED_FOV = math.radians(75)  # vertical, that a narrow window may widen the field of view of an image to
MAX_COORDINATE = 1e9  # of a camera, capture units
JUMP_SECONDS = 0.6
JUMP_RATE = 30  # poses sent per second
IN_FRONT = 0.5  # radii of the scene from its centre to a camera in front of it
MIN_UP = 0.05  # cosine to a camera's up below which an up direction says nothing about it
TILTED = math.radians(
    45
)  # angle on the first image between its up and that of the scene, above which it is turned


@dataclass(frozen=True)
class Pose:
    """The camera of a page. viser's convention is luxel's: OpenCV axes, camera to world, vertical fov.

    Args:
        wxyz: rotation of camera axes into the world, [4].
        position: camera centre, [3].
        fov_y: vertical field of view, radians.
        width, height: canvas of the page in its pixels.
    """

    wxyz: np.ndarray
    position: np.ndarray
    fov_y: float
    width: int = 1
    height: int = 1

    @staticmethod
    def of_client(camera: Any) -> Pose:
        """The pose that a viser CameraHandle holds now."""
        return Pose(
            np.array(camera.wxyz, np.float64),
            np.array(camera.position, np.float64),
            float(camera.fov),
            max(1, int(camera.image_width)),
            max(1, int(camera.image_height)),
        )

    @staticmethod
    def of_camera(camera: Camera, aspect: float | None = None) -> Pose:
        """The pose of a camera, its field of view widened until a window of ``aspect`` shows the full image, or to
        WIDENED_FOV."""
        matrix = camera.cam_to_world.detach().cpu().double().numpy()
        half = math.tan(0.5 * vertical_field(camera))
        own = camera.width / camera.height
        if aspect is not None and aspect < own:
            half = _widened(half, own / aspect)
        rotation = vtf.SO3.from_matrix(matrix[:3, :3]).wxyz
        return Pose(rotation, matrix[:3, 3], 2 * math.atan(half), camera.width, camera.height)

    def clamped(self) -> Pose | None:
        """The pose with a unit rotation, a field of view and a size that can be rendered; None if it is no pose."""
        # Plain Python: each camera of each page comes here, and numpy takes four times as long for so few numbers.
        norm = math.hypot(*self.wxyz.tolist())
        near = all(abs(x) <= MAX_COORDINATE for x in self.position.tolist())
        if not (1e-6 < norm < 1e6 and near and math.isfinite(self.fov_y)):
            return None
        width, height = clamped_size(self.width, self.height)
        fov = clamped_fov(self.fov_y)
        if abs(norm - 1) < 1e-3 and (fov, width, height) == (self.fov_y, self.width, self.height):
            return self
        return Pose(self.wxyz / norm, self.position, fov, width, height)

    @property
    def rotation(self) -> np.ndarray:
        """Camera axes in the world as columns, [3, 3]."""
        return vtf.SO3(self.wxyz).as_matrix()

    def camera(self, width: int, height: int, near: float = 0.01, far: float = 1e10) -> Camera:
        """A Camera that sees what the page sees, in width x height pixels."""
        rotation = self.rotation
        world_to_cam = np.eye(4)
        world_to_cam[:3, :3], world_to_cam[:3, 3] = rotation.T, -rotation.T @ self.position
        focal = 0.5 * self.height / math.tan(0.5 * self.fov_y)
        full = Camera(
            torch.tensor(world_to_cam, dtype=torch.float32),
            torch.tensor([focal, focal, 0.5 * self.width, 0.5 * self.height], dtype=torch.float32),
            self.width,
            self.height,
            near,
            far,
        )
        return full.resized(width, height)


def clamped_size(width: float, height: float) -> tuple[int, int]:
    """A size in pixels, scaled down until it has at most MAX_SIDE a side and MAX_PIXELS in all, and at least 1."""
    width, height = max(1.0, width), max(1.0, height)
    scale = min(1.0, MAX_SIDE / width, MAX_SIDE / height, math.sqrt(MAX_PIXELS / width / height))
    return max(1, int(width * scale)), max(1, int(height * scale))


def clamped_fov(fov_y: float) -> float:
    """A vertical field of view in [MIN_FOV, MAX_FOV], radians."""
    return min(max(fov_y, MIN_FOV), MAX_FOV)


@dataclass(frozen=True)
class SceneExtent:
    """Centre [3], radius (capture units), up and perhaps front direction [3] that the viewer assumes of a scene."""

    centre: np.ndarray
    radius: float
    up: np.ndarray
    front: np.ndarray | None = None


def find_extent(
    views: Sequence[View],
    marks: Callable[[], Tensor],
    up: np.ndarray | None = None,
    front: np.ndarray | None = None,
) -> SceneExtent:
    """Centre, radius and up direction from the views, or from the scene's ``marks`` where there are no views.

    ``marks`` gives points that mark the place and size of the scene, [P, 3], see `luxel.render.scene.Scene.centres`.
    The centre is the point nearest to all optical axes (least squares); distant cameras do not count. ``up`` [3] and
    ``front`` [3] are taken over where they are given; otherwise up is the mean of the cameras' up or, without views,
    -y, as structure from motion tends to have it, and there is no front. A scene without views and front whose points
    are much denser in one place than elsewhere has its centre there, and the front from which little hides it, see
    `luxel.viewer.web.densest.standpoint`.
    """
    if views:
        views = near_views(views)
        poses = poses_of(views)
        centres, forward = poses[:, :3, 3], poses[:, :3, 2]
        away = np.eye(3) - forward[:, :, None] * forward[:, None, :]  # removes the part along an axis
        system = away.sum(0) + 1e-3 * len(views) * np.eye(3)  # parallel axes: stay near the cameras
        mean = centres.mean(0)
        centre = np.linalg.solve(system, (away @ centres[:, :, None]).sum(0)[:, 0] + 1e-3 * len(views) * mean)
        radius = float(np.median(np.linalg.norm(centres - centre, axis=1)))
        upward = -poses[:, :3, 1].mean(0) if up is None else np.asarray(up, float)
    else:
        positions = marks().detach()
        positions = positions[:: max(1, len(positions) // 100_000)].cpu().double().numpy()
        positions = positions[np.isfinite(positions).all(axis=1)]
        centre = np.median(positions, axis=0) if len(positions) else np.zeros(3)
        distances = np.linalg.norm(positions - centre, axis=1)
        radius = 3.2 * float(np.quantile(distances, 0.8)) if len(positions) else 1.0
        upward = np.array([0.0, -1.0, 0.0]) if up is None else np.asarray(up, float)
        size = float(np.linalg.norm(upward))
        seen_from = standpoint(positions, upward / size) if front is None and size > 1e-6 else None
        if seen_from is not None:
            centre, front, radius = seen_from.centre, seen_from.direction, seen_from.distance / IN_FRONT
    length = float(np.linalg.norm(upward))
    if not length > 1e-6:
        upward, length = np.array([0.0, 0.0, 1.0]), 1.0
    return SceneExtent(centre, radius if radius > 1e-6 else 1.0, upward / length, front)


def first_pose(views: Sequence[View], extent: SceneExtent) -> Pose:
    """Where a page begins: at the first view, upright, else in front of a scene that has a front, else next to the
    scene, a little above its centre."""
    if views:
        return _upright_pose(Pose.of_camera(views[0].camera), extent.up)
    if extent.front is not None:
        eye = extent.centre + IN_FRONT * extent.radius * extent.front
    else:
        side = np.cross(extent.up, np.eye(3)[int(np.argmin(np.abs(extent.up)))])
        side /= np.linalg.norm(side)
        eye = extent.centre + extent.radius * (0.95 * side + 0.3 * extent.up)
    return Pose.of_camera(Camera.look_at(eye.tolist(), extent.centre.tolist(), extent.up.tolist()))


def _upright_pose(pose: Pose, up: np.ndarray) -> Pose:
    """A pose turned about its optical axis until ``up`` [3] is up on its image, where it is off by more than TILTED."""
    right, own, forward = pose.rotation[:, 0], -pose.rotation[:, 1], pose.rotation[:, 2]
    x, y = float(up @ right), float(up @ own)
    if math.hypot(x, y) < MIN_UP or abs(math.atan2(x, y)) <= TILTED:
        return pose
    down = -(x * right + y * own) / math.hypot(x, y)
    turned = vtf.SO3.from_matrix(np.stack([np.cross(down, forward), down, forward], 1)).wxyz
    if abs(x) <= abs(y):
        return replace(pose, wxyz=turned)
    fov = 2 * math.atan(math.tan(0.5 * pose.fov_y) * pose.width / pose.height)
    return Pose(turned, pose.position, fov, pose.height, pose.width)


def start_pose(views: Sequence[View], extent: SceneExtent, aspect: float) -> Pose:
    """Where a page with a window of ``aspect`` begins: at `first_pose`, its field of view widened until the window
    shows the full image or to WIDENED_FOV, and then farther back until the middle of the image fits, a square."""
    first = first_pose(views, extent)
    own = first.width / first.height if views else 1.0
    half = math.tan(0.5 * first.fov_y)
    wide = _widened(half, max(1.0, own / aspect))
    back = max(1.0, half * min(1.0, own) / (wide * aspect))
    centre = orbit_point(first, extent)
    return replace(first, position=centre + back * (first.position - centre), fov_y=2 * math.atan(wide))


def _widened(half: float, factor: float) -> float:
    """Tangent of half a field of view, times a factor, to that of WIDENED_FOV or what it is already."""
    return min(half * factor, max(half, math.tan(0.5 * WIDENED_FOV)))


def orbit_point(pose: Pose, extent: SceneExtent) -> np.ndarray:
    """The point on the optical axis nearest to the centre of the scene: the centre of rotation of a drag, [3]."""
    forward = pose.rotation[:, 2]
    distance = float(forward @ (extent.centre - pose.position))
    return pose.position + forward * max(distance, 0.1 * extent.radius)


def focused(pose: Pose, point: np.ndarray) -> Pose:
    """The camera that looks at a point [3] in the same direction from half its distance."""
    forward = pose.rotation[:, 2]
    distance = 0.5 * float(np.linalg.norm(point - pose.position))
    return replace(pose, position=point - distance * forward)


def jump(
    client: Any,
    target: Pose,
    extent: SceneExtent,
    *,
    seconds: float = JUMP_SECONDS,
    cancelled: Callable[[], bool] = lambda: False,
    lock: AbstractContextManager[Any] | None = None,
    up: np.ndarray | None = None,
) -> None:
    """Moves the camera of a viser client to ``target``, along a straight line and the shortest turn.

    Args:
        client: viser ClientHandle.
        target: where to go; its width and height do not matter.
        extent: gives the point that the page orbits about afterwards.
        seconds: duration; 0 jumps at once.
        cancelled: called before each pose; True ends the flight where it is.
        lock: held from this call to the pose: none is sent once another motion has begun under the lock.
        up: as for `place`.
    """
    start = Pose.of_client(client.camera)
    turn = vtf.SO3(start.wxyz).inverse() @ vtf.SO3(target.wxyz)
    began = time.monotonic()
    progress = 0.0
    while progress < 1:
        progress = min(1.0, (time.monotonic() - began) / seconds) if seconds > 0 else 1.0
        s = progress * progress * (3 - 2 * progress)
        wxyz = (vtf.SO3(start.wxyz) @ vtf.SO3.exp(turn.log() * s)).wxyz if progress < 1 else target.wxyz
        here = Pose(wxyz, start.position + s * (target.position - start.position), target.fov_y)
        with lock or nullcontext():
            if cancelled():
                return
            place(client, here, extent, start.fov_y + s * (target.fov_y - start.fov_y), up)
        if progress < 1:
            time.sleep(1 / JUMP_RATE)


def place(
    client: Any,
    pose: Pose,
    extent: SceneExtent,
    fov_y: float | None = None,
    up: np.ndarray | None = None,
) -> None:
    """Puts the camera of a viser client at ``pose``, in messages that the page applies at once.

    viser's own setters compute each message from the camera as the page sent it last. A page that moves sends its
    camera all the time, also between two setters: it would end alongside the pose.

    Args:
        client: viser ClientHandle.
        pose: where to put it; its width and height do not matter.
        extent: gives the point that the page orbits about afterwards.
        fov_y: radians; that of the pose where it is not given.
        up: direction [3] that drags turn about afterwards, as far as the pose allows; that of the page's last message
            where it is not given.
    """
    state = client.camera._state
    look_at, fov_y = orbit_point(pose, extent), pose.fov_y if fov_y is None else fov_y
    up = upright(pose.rotation, state.up_direction if up is None else up)
    with client.atomic():
        for message in (
            SetCameraPositionMessage(as_tuple(pose.position)),
            SetCameraLookAtMessage(as_tuple(look_at)),
            SetCameraUpDirectionMessage(as_tuple(up)),
            SetCameraFovMessage(float(fov_y)),
        ):
            client._websock_connection.queue_message(message)
        state = client.camera._state
        state.position, state.look_at, state.up_direction = np.array(pose.position, float), look_at, up
        state.wxyz, state.fov, state.update_timestamp = np.array(pose.wxyz, float), float(fov_y), time.time()


def turn_up(client: Any, up: np.ndarray) -> None:
    """Makes a direction [3] the up of a page, also where the page's last message, which may be late, had it already."""
    if np.allclose(client.camera.up_direction, up):  # viser's setter would send nothing
        client._websock_connection.queue_message(SetCameraUpDirectionMessage(as_tuple(up)))
    else:
        client.camera.up_direction = up


def upright(rotation: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The up direction nearest to ``up`` [3] with which a page turns its camera as ``rotation`` [3, 3] has it.

    It lies in the plane of the camera's optical axis and its own up; it is that up itself where ``up`` is nearly
    square to it, or points down.
    """
    right, own = rotation[:, 0], -rotation[:, 1]
    level = up - float(up @ right) * right
    return level if float(level @ own) >= MIN_UP else own


def as_tuple(vector: np.ndarray) -> tuple[float, float, float]:
    """Three numbers as viser's messages have them."""
    x, y, z = (float(value) for value in vector)
    return x, y, z
