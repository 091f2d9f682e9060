"""Camera paths: orbits, interpolation of keyframes, and JSON files in the layout of nerfstudio."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes.errors import CaptureError
from luxel.scenes.files.ply import write_atomically
from luxel.scenes.files.reading import read_bytes, reading
from luxel.scenes.geometry import (
    OPENGL_TO_OPENCV,
    invert_rigid,
    quaternion_from_rotation,
    rigid_from_matrix,
    rotation_from_quaternion,
)
from luxel.scenes.unused import WRONG, ReadKeys, Unused, in_order, recorded, things_are


@dataclass
class CameraPath:
    """Cameras of one image size, ``fps`` frames per second.

    Args:
        cameras: pinhole cameras.
        fps: frames per second of a video.
        times: of the cameras; empty: the scene is static, or plays.
        unused: what the file of the path holds that is not used.
    """

    cameras: list[Camera]
    fps: float = 24.0
    times: list[float] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)


def orbit(
    centre: Sequence[float] | np.ndarray,
    radius: float,
    *,
    up: Sequence[float] | np.ndarray = (0.0, 0.0, 1.0),
    elevation: float = 0.35,
    frames: int = 120,
    fov_y: float = math.radians(50),
    width: int = 640,
    height: int = 480,
) -> list[Camera]:
    """Cameras on a circle around ``centre``, all looking at it; the last is one step before the first.

    Args:
        centre: world coordinates, [3].
        radius: distance from the centre, capture units.
        up: the axis of the circle, [3].
        elevation: angle above the plane through the centre, radians, between -pi/2 and pi/2.
        frames: how many cameras.
        fov_y: vertical field of view, radians.
        width, height: pixels.

    Raises:
        ValueError: radius is not positive, ``up`` is zero, the elevation is straight up or down, or frames < 1.
    """
    axis = np.asarray(up, float)
    if not (radius > 0 and np.linalg.norm(axis) > 0 and abs(elevation) < 0.499 * math.pi and frames >= 1):
        raise ValueError(
            "radius must be above 0, up not 0, |elevation| below pi / 2 and frames at least 1, "
            f"got {radius}, {list(up)}, {elevation} and {frames}"
        )
    axis = axis / np.linalg.norm(axis)
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    second = np.cross(axis, first)
    middle = np.asarray(centre, float)
    cameras = []
    for angle in np.linspace(0, 2 * math.pi, frames, endpoint=False):
        flat = math.cos(angle) * first + math.sin(angle) * second
        eye = middle + radius * (math.cos(elevation) * flat + math.sin(elevation) * axis)
        eye_list, middle_list, up_list = eye.tolist(), middle.tolist(), axis.tolist()
        cameras.append(
            Camera.look_at(eye_list, middle_list, up_list, fov_y=fov_y, width=width, height=height)
        )
    return cameras


def orbit_like(
    cameras: Sequence[Camera],
    *,
    centre: Sequence[float] | np.ndarray,
    up: Sequence[float] | np.ndarray | None = None,
    frames: int = 120,
    width: int | None = None,
    height: int | None = None,
) -> list[Camera]:
    """An orbit at the usual distance, elevation and field of view of given cameras.

    Args:
        cameras: single cameras, for example those that the scene was trained from.
        centre: what to look at, [3].
        up: axis of the orbit, [3]; by default the cameras' mean upward direction.
        frames: how many cameras.
        width, height: pixels; by default those of the first camera.
    """
    poses = np.stack([camera.cam_to_world.detach().cpu().double().numpy() for camera in cameras])
    axis = np.asarray(up, float) if up is not None else -poses[:, :3, 1].mean(axis=0)
    axis = (
        axis / max(np.linalg.norm(axis), 1e-12) if np.linalg.norm(axis) > 1e-6 else np.array([0.0, 0.0, 1.0])
    )
    away = poses[:, :3, 3] - np.asarray(centre, float)
    distance = np.linalg.norm(away, axis=1)
    radius = float(np.median(distance)) or 1.0
    sine = np.clip((away @ axis) / np.maximum(distance, 1e-12), -1, 1)
    elevation = float(np.clip(np.arcsin(np.median(sine)), -1.3, 1.3))
    fov = float(np.median([2 * math.atan(0.5 * c.height / float(c.intrinsics[1])) for c in cameras]))
    w, h = width or cameras[0].width, height or cameras[0].height
    return orbit(centre, radius, up=axis, elevation=elevation, frames=frames, fov_y=fov, width=w, height=h)


def resized(cameras: Sequence[Camera], width: int | None = None, height: int | None = None) -> list[Camera]:
    """Cameras of another image size, with the same vertical field of view and centred alike.

    Args:
        cameras: of one size, at least one.
        width, height: pixels; where one is None it follows from the aspect of the first camera, where both are the
            cameras stay as they are.
    """
    if width is None and height is None:
        return list(cameras)
    aspect = cameras[0].width / cameras[0].height
    high = round((width or 1) / aspect) if height is None else height
    wide = round(high * aspect) if width is None else width
    out = []
    for camera in cameras:
        zoom = high / camera.height
        fx, fy, cx, cy = (float(value) * zoom for value in camera.intrinsics)
        lens = torch.tensor([fx, fy, cx + 0.5 * (wide - camera.width * zoom), cy], dtype=torch.float32)
        out.append(replace(camera, intrinsics=lens, width=wide, height=high))
    return out


def slerp(a: np.ndarray, b: np.ndarray, t: float) -> np.ndarray:
    """Spherical linear interpolation from unit quaternion a to b along the shorter arc, t in [0, 1]; [4]."""
    cosine = float(a @ b)
    if cosine < 0:
        b, cosine = -b, -cosine
    if cosine > 0.9995:
        mixed = a + t * (b - a)
        return mixed / np.linalg.norm(mixed)
    angle = math.acos(cosine)
    return (math.sin((1 - t) * angle) * a + math.sin(t * angle) * b) / math.sin(angle)


def catmull_rom(p: np.ndarray, t: float) -> np.ndarray:
    """The uniform Catmull-Rom spline between the middle two of four points [4, D], at t in [0, 1]."""
    a, b, c, d = p
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t**3)


def interpolate(cameras: Sequence[Camera], frames: int, loop: bool = False) -> list[Camera]:
    """A smooth path through keyframes: positions and lens by Catmull-Rom, rotations by slerp.

    Args:
        cameras: at least one single camera; the image size is that of the first.
        frames: number of cameras; without ``loop`` the first and last are the keyframes themselves.
        loop: continues from the last keyframe to the first; the final frame is one step before the first.

    Raises:
        ValueError: there are no keyframes, or frames < 1.
    """
    if not cameras or frames < 1:
        raise ValueError(f"cameras and frames must be at least 1, got {len(cameras)} and {frames}")
    keys = len(cameras)
    poses = [camera.cam_to_world.detach().cpu().double().numpy() for camera in cameras]
    turns = [quaternion_from_rotation(pose[:3, :3]) for pose in poses]
    # Logarithms of focal lengths and relative principal points: image sizes may differ.
    rows = []
    for camera, pose in zip(cameras, poses, strict=True):
        fx, fy, cx, cy = camera.intrinsics.double().tolist()
        lens = [
            math.log(fx / camera.width),
            math.log(fy / camera.height),
            cx / camera.width,
            cy / camera.height,
        ]
        rows.append([*pose[:3, 3], *lens])
    table = np.array(rows)
    width, height = cameras[0].width, cameras[0].height

    def index(i: int) -> int:
        return i % keys if loop else min(max(i, 0), keys - 1)

    spans = keys if loop else keys - 1
    out = []
    for frame in range(frames):
        position = frame * spans / (frames if loop else max(frames - 1, 1))
        span = min(int(position), max(spans - 1, 0))
        t = position - span
        values = catmull_rom(table[[index(span + k) for k in (-1, 0, 1, 2)]], t)
        pose = np.eye(4)
        turn = slerp(turns[index(span)], turns[index(span + 1)], t)
        pose[:3, :3], pose[:3, 3] = rotation_from_quaternion(turn.tolist(), "path"), values[:3]
        lens = [
            math.exp(values[3]) * width,
            math.exp(values[4]) * height,
            values[5] * width,
            values[6] * height,
        ]
        out.append(_camera(pose, lens, width, height))
    return out


def interpolate_times(times: Sequence[float], frames: int) -> list[float]:
    """The time of each camera of `interpolate` without ``loop``, linear between the times of the keyframes.

    Args:
        times: of the keyframes, at least one, in any order.
        frames: number of times.

    Raises:
        ValueError: there are no keyframes, or frames < 1.
    """
    if not len(times) or frames < 1:
        raise ValueError(f"times and frames must be at least 1, got {len(times)} and {frames}")
    positions = np.arange(frames) * (len(times) - 1) / max(frames - 1, 1)
    return np.interp(positions, np.arange(len(times)), np.asarray(times, float)).tolist()


def _camera(cam_to_world: np.ndarray, lens: Sequence[float], width: int, height: int) -> Camera:
    world_to_cam = torch.tensor(invert_rigid(cam_to_world), dtype=torch.float32)
    return Camera(world_to_cam, torch.tensor(lens, dtype=torch.float32), width, height)


def save_path(
    path: str | Path, cameras: Sequence[Camera], *, fps: float = 24.0, times: Sequence[float] = ()
) -> None:
    """Writes a camera path as JSON, see `path_json`.

    Args:
        path: of the file.
        cameras: single cameras.
        fps: frames per second of a video along the path.
        times: timestamp of each camera; empty for static scenes.

    Raises:
        CaptureError: the file cannot be written.
        ValueError: there are no cameras, or not as many times as cameras.
    """
    write_atomically(Path(path), [path_json(cameras, fps=fps, times=times)])


def path_json(
    cameras: Sequence[Camera],
    *,
    fps: float = 24.0,
    times: Sequence[float] = (),
    shift: Sequence[float] | np.ndarray | None = None,
) -> bytes:
    """A camera path as JSON: OpenGL camera-to-world matrices, row major, and vertical fields of view in degrees.

    The intrinsics are added as fx, fy, cx, cy, which other programs ignore, and each camera's time as render_time.

    Args:
        cameras: single cameras.
        fps: frames per second of a video along the path.
        times: timestamp of each camera; empty for static scenes.
        shift: what was subtracted from the coordinates of the scene, [3]; the file has those of the world. None:
            nothing.

    Raises:
        ValueError: there are no cameras, or not as many times as cameras.
    """
    if not cameras:
        raise ValueError("cameras must hold at least one camera, got none")
    if len(times) not in (0, len(cameras)):
        raise ValueError(f"times must be {len(cameras)} like cameras, or none, got {len(times)}")
    entries = []
    for camera in cameras:
        pose = camera.cam_to_world.detach().cpu().double().numpy() @ OPENGL_TO_OPENCV
        if shift is not None:
            pose[:3, 3] += shift
        lens = [float(value) for value in camera.intrinsics.tolist()]
        fov = math.degrees(2 * math.atan(0.5 * camera.height / lens[1]))
        entries.append(
            {
                "camera_to_world": pose.reshape(-1).tolist(),
                "fov": fov,
                "aspect": camera.width / camera.height,
                **dict(zip(("fx", "fy", "cx", "cy"), lens, strict=True)),
            }
        )
    for entry, time in zip(entries, times, strict=False):
        entry["render_time"] = float(time)
    document = {
        "camera_type": "perspective",
        "render_width": cameras[0].width,
        "render_height": cameras[0].height,
        "fps": fps,
        "seconds": len(cameras) / fps,
        "camera_path": entries,
    }
    return json.dumps(document, indent=1).encode()


REMEDY = "Save the path again, from the viewer or with save_path."
PINHOLES = ("", "perspective", "pinhole")  # types of cameras that paths are rendered with
# Keys of paths that cameras are made from in the viewers that save them, which have saved those cameras, too.
HARMLESS = ("keyframes", "seconds", "is_cycle", "smoothness_value", "default_fov", "default_transition_sec")
OF_KEYFRAMES = ("aspect", "focal_length", "rotation", "position", "name")


def load_path(path: str | Path, shift: Sequence[float] | np.ndarray | None = None) -> CameraPath:
    """Reads a camera path of luxel or nerfstudio.

    Args:
        path: of the file.
        shift: what is subtracted from its coordinates, [3], as it was from those of the scene. None: nothing.

    Raises:
        CaptureError: the file cannot be read, a camera in it is invalid, or is no pinhole camera.
    """
    path = Path(path)
    with reading(path, "a camera path", REMEDY):
        document = recorded(json.loads(read_bytes(path)))
        width, height = int(document["render_width"]), int(document["render_height"])
        fps = float(document.get("fps", 24.0))
        _require_pinhole(document, str(path))
        entries = [
            (list(e["camera_to_world"]), float(e.get("fov", 50.0)), e) for e in document["camera_path"]
        ]
        if not entries or not (0 < width < 1 << 16 and 0 < height < 1 << 16 and 0 < fps < 1e6):
            raise ValueError("no cameras, or no image size")
        cameras, times = [], []
        for number, (matrix, fov, entry) in enumerate(entries):
            where = f"{path}: camera {number}"
            _require_pinhole(entry, where)
            size = int(entry.get("render_width", width)), int(entry.get("render_height", height))
            if size != (width, height):
                raise CaptureError(
                    f"{where}: it is {size[0]}x{size[1]} pixels, and the path {width}x{height}.",
                    "Give all cameras of a path one size; `luxel render` has --width and --height for another.",
                )
            flat = np.array(matrix, dtype=float)
            pose = rigid_from_matrix(flat.reshape(4, 4), where) @ OPENGL_TO_OPENCV
            if shift is not None:
                pose[:3, 3] -= shift
            if not 0 < fov < 180:
                raise CaptureError(
                    f"{where}: a field of view of {fov} degrees is not between 0 and 180.", REMEDY
                )
            focal = 0.5 * height / math.tan(math.radians(0.5 * fov))
            usual = {"fx": focal, "fy": focal, "cx": 0.5 * width, "cy": 0.5 * height}
            lens = [float(entry.get(key, value)) for key, value in usual.items()]
            if not (np.isfinite(lens).all() and min(lens[:2]) > 0):
                raise CaptureError(f"{where}: invalid intrinsics {lens}.", REMEDY)
            cameras.append(_camera(pose, lens, width, height))
            if isinstance(entry.get("render_time"), int | float):
                times.append(float(entry["render_time"]))
                if not math.isfinite(times[-1]):
                    raise CaptureError(f"{where}: render_time must be finite, got {times[-1]}.", REMEDY)
        unused = list(_unused_keys(path, document, [entry for *_, entry in entries], len(times)))
    return CameraPath(cameras, fps, times if len(times) == len(cameras) else [], in_order(unused))


def _require_pinhole(level: ReadKeys, where: str) -> None:
    """Refuses a path, or a camera of one, of another type than a pinhole."""
    kind = level.get("camera_type")
    if kind is not None and str(kind).strip().lower() not in PINHOLES:
        raise CaptureError(
            f"{where}: camera_type is {kind!r}, and camera paths are rendered with perspective cameras only.",
            'Save the path with perspective cameras, or write "perspective" for its camera_type to render it so.',
        )


def _unused_keys(path: Path, document: ReadKeys, entries: list[ReadKeys], times: int) -> Iterator[Unused]:
    """What of a camera path is not used."""
    if 0 < times < len(entries):
        number = next(row for row, entry in enumerate(entries) if "render_time" not in entry)
        yield Unused(
            "times",
            times,
            "render_time",
            f"{path}: only {times} of {len(entries)} cameras have a render_time, camera {number} has none, so the "
            "times are not used.",
            "Give all cameras a render_time, or none.",
            WRONG,
        )
    crop = document.get("crop")
    if crop not in (None, {}, []):
        yield Unused(
            "crop box",
            1,
            "crop",
            f"{path}: its crop box is not used: all of the scene is rendered.",
            "Delete what is outside of the box in the viewer, and render the edited scene.",
            WRONG,
        )
    of_path = [key for key in document.unread() if key not in HARMLESS]
    of_cameras = [key for entry in entries for key in entry.unread() if key not in OF_KEYFRAMES]
    for kind, keys in (("keys of camera paths", of_path), ("keys of cameras", of_cameras)):
        if names := list(dict.fromkeys(keys)):
            yield Unused(
                kind,
                len(names),
                names[0],
                f"{path}: {things_are(names, kind.replace('keys', 'key', 1), kind)} not used.",
            )
