"""Poses in other axes than those of their format: no view then sees the points that the capture brings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from luxel.scenes.captures.contents import CaptureContents
from luxel.scenes.captures.formats.colmap import COLMAP
from luxel.scenes.captures.lenses.lens import Lens
from luxel.scenes.errors import CaptureError
from luxel.scenes.geometry import OPENGL_TO_OPENCV, invert_rigid
from luxel.scenes.unused import WRONG, Unused

MIN_POINTS = 20  # of fewer, none needs to be visible
VIEWS, POINTS = 64, 1500  # that are looked at first; all are, before anything is refused
MARGIN = 1.15  # of the angle of the corner of an image: lenses with distortion see a little more
VISIBLE = 0.01  # of the points: what a view sees at least
NEARLY_ALL = 0.9  # of the views: see as much with other axes
BETTER = 10  # times the points that a view sees in the median
MUCH = 0.3  # of the points: what a view sees in the median with other axes, at least
OPENCV, OPENGL = "x right, y down, z forward", "x right, y up, z backward"
ROBOT = "x forward, y left, z up"
# From the axes of robots (x forward, y left, z up) to those of OpenCV.
ROBOT_TO_OPENCV = np.array([[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
# The world of the points as that of the poses, by what was exchanged.
WORLDS = {
    "": np.eye(3),
    "(x, y, z) -> (x, -z, y)": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "(x, y, z) -> (x, z, -y)": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "(x, y, z) -> (y, x, -z)": np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]]),
    "(x, y, z) -> (x, -y, -z)": np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, -1]]),
    "(x, y, z) -> (x, z, y)": np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]]),
}


@dataclass(frozen=True)
class Reading:
    """Another way in which the poses of a file may be meant.

    Args:
        cam_to_world: [V, 4, 4], OpenCV axes.
        cause: what the poses are instead, a clause.
        remedy: a sentence.
    """

    cam_to_world: np.ndarray
    cause: str
    remedy: str


def check_points_in_view(path: Path, contents: CaptureContents) -> None:
    """Refuses a capture whose views see nothing of its points; names it where other axes show them far more.

    Args:
        path: of the capture, for the message.
        contents: what its format has read; only points of files are looked at. An entry is added to ``unused`` where
            the views see a little of the points.

    Raises:
        CaptureError: with the axes in which the views would see the points.
    """
    if contents.points is None or contents.pose_report or len(contents.points.xyz) < MIN_POINTS:
        return
    sources, xyz = contents.images, contents.points.xyz.astype(float)
    poses = np.stack([invert_rigid(source.world_to_cam) for source in sources])
    cosines = np.array([_cosine_of_corner(source.lens) for source in sources])
    some = np.unique(np.linspace(0, len(sources) - 1, min(VIEWS, len(sources))).astype(int))
    few = xyz[np.unique(np.linspace(0, len(xyz) - 1, min(POINTS, len(xyz))).astype(int))]
    median = float(np.median(_shares(poses[some], cosines[some], few)))
    if BETTER * median > 1:
        return
    actual = _shares(poses, cosines, xyz)
    blind = np.median(actual) < VISIBLE
    amount = "at least 1% of" if actual.any() else "any of"
    count = int((actual >= VISIBLE).sum())
    problem = (
        f"{path}: {count or 'none'} of the {len(sources)} views would see {amount} the capture's {len(xyz):,} points"
        if blind
        else f"The views would see little of the capture's {len(xyz):,} points, {100 * np.median(actual):.1f}% in the "
        "median"
    )
    for reading, moved in _candidates(contents.format, poses):
        trial = _shares(reading.cam_to_world[some], cosines[some], few @ WORLDS[moved].T)
        if np.median(trial) < max(MUCH, BETTER * median) or (trial >= VISIBLE).mean() < NEARLY_ALL:
            continue
        causes = [reading.cause] if reading.cause else []
        causes += [f"the points have other axes than the world of the poses, by {moved}"] if moved else []
        remedies = [reading.remedy] if reading.remedy else []
        remedies += ["Turn the points like that, or remove their file."] if moved else []
        problem = (
            f"{problem}. Probably {', and '.join(causes)}: they would see {100 * np.median(trial):.0f}% then."
        )
        if blind:
            raise CaptureError(problem, " ".join(remedies))
        entry = Unused("poses", len(sources), sources[0].name, problem, " ".join(remedies), WRONG)
        contents.unused.append(entry)
        return
    if not actual.any():
        raise CaptureError(
            f"{problem}, so the poses and the points do not fit together.",
            "Export both from one program at once, in one unit and one set of axes; or remove the file of points, "
            "which are then triangulated from the images.",
        )


def _candidates(format_name: str, poses: np.ndarray) -> Iterator[tuple[Reading, str]]:
    """Readings of the poses, and what is done to the points: first one of both, then both."""
    first, *others = _readings(format_name, poses)
    yield from ((reading, "") for reading in others)
    yield from ((first, moved) for moved in WORLDS if moved)
    yield from ((reading, moved) for reading in others for moved in WORLDS if moved)


def _cosine_of_corner(lens: Lens) -> float:
    """The cosine of the angle between the optical axis and the farthest corner of an image, with a margin."""
    x = max(lens.cx, lens.width - lens.cx) / lens.fx
    y = max(lens.cy, lens.height - lens.cy) / lens.fy
    radius = float(np.hypot(x, y))
    angle = radius if lens.fisheye or lens.model else np.arctan(radius)
    return float(np.cos(min(MARGIN * angle, np.pi)))


def _shares(poses: np.ndarray, cosines: np.ndarray, xyz: np.ndarray) -> np.ndarray:
    """The fraction of the points in the cone around the optical axis of each view that holds its image, [V]."""
    out = np.zeros(len(poses))
    for row, (pose, cosine) in enumerate(zip(poses, cosines, strict=True)):
        away = xyz - pose[:3, 3]
        out[row] = (away @ pose[:3, 2] > cosine * np.sqrt((away * away).sum(1))).mean()
    return out


def _readings(format_name: str, poses: np.ndarray) -> Iterator[Reading]:
    """Ways in which the poses of a format are written by mistake, the most usual first.

    Args:
        format_name: of the capture; poses of COLMAP models are world_to_cam with OpenCV axes, those of the others
            cam_to_world with OpenGL axes.
        poses: cam_to_world, OpenCV axes, as they were read, [V, 4, 4].
    """
    flip = OPENGL_TO_OPENCV
    inverses = np.stack([invert_rigid(pose) for pose in poses])
    yield Reading(poses, "", "")
    if format_name == COLMAP.name:  # the file has the inverses
        axes = f"but COLMAP's are OpenCV's ({OPENCV})"
        inverted = "the poses are from camera to world, but COLMAP's are from world to camera"
        yield Reading(
            poses @ flip,
            f"the cameras have OpenGL axes ({OPENGL}), {axes}",
            "Negate the second and third rows of rotation and translation of each pose.",
        )
        yield Reading(inverses, inverted, "Invert each pose.")
        yield Reading(
            inverses @ flip,
            f"{inverted}, and the cameras have OpenGL axes ({OPENGL})",
            "Negate the second and third columns of the rotation of each pose, and invert it.",
        )
        yield Reading(
            poses @ ROBOT_TO_OPENCV, f"the cameras have the axes of robots ({ROBOT}), {axes}", "Turn them."
        )
        return
    if "transforms" not in format_name:
        exchanged = (
            "the axes of the cameras are exchanged: y and z point the other way, as between OpenGL and OpenCV"
        )
        inverted = (
            "the poses are inverted: from world to camera instead of from camera to world, or the other way"
        )
        yield Reading(poses @ flip, exchanged, "Negate the second and third axes of each camera.")
        yield Reading(inverses, inverted, "Invert each pose.")
        return
    axes = f"but those of this format are OpenGL's ({OPENGL})"
    inverted = "the poses are from world to camera, but those of this format are from camera to world"
    yield Reading(
        poses @ flip,
        f"the cameras have OpenCV axes ({OPENCV}), {axes}",
        "Negate the second and third columns of each matrix.",
    )
    yield Reading(flip @ inverses @ flip, inverted, "Invert each matrix.")
    yield Reading(
        flip @ inverses,
        f"{inverted}, and the cameras have OpenCV axes ({OPENCV})",
        "Invert each matrix, and negate its second and third columns.",
    )
    yield Reading(
        poses @ flip @ ROBOT_TO_OPENCV,
        f"the cameras have the axes of robots ({ROBOT}), {axes}",
        "Turn them.",
    )
