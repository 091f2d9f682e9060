"""The path of a camera around an object that turns about one axis, and the alignment of two of them."""

from __future__ import annotations

import math

import numpy as np

from luxel.scenes.captures.colmap_process.turn_path import (
    Alignment,
    TurnPath,
    about,
    align,
    centre_of,
    fit_path,
    unwrapped,
)
from luxel.scenes.synthetic.captures.turntable import turntable_views

QUARTER = about(np.array([0.0, 0.0, 1.0]), math.pi / 2)


def poses_of(views: int = 24, *, rings: int = 1) -> np.ndarray:
    """World to camera of a turntable, [V, 3, 4]."""
    made = turntable_views(views, 64, 48, rings=rings)
    return np.stack([view.camera.world_to_cam.double().numpy()[:3] for view in made])


def frame(seed: int = 0) -> Alignment:
    """Another frame and unit."""
    random = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(random.standard_normal((3, 3)))
    return Alignment(2.3, turn * np.sign(np.linalg.det(turn)), random.standard_normal(3), 0, 0)


def test_a_path_is_fitted_though_some_poses_are_wrong() -> None:
    other = frame()
    poses = np.stack([other.pose(pose) for pose in poses_of()])
    poses[5, :, :3] = frame(1).turn
    poses[9, :, 3] += 1.0
    path = fit_path(poses)
    assert path is not None
    turned, moved = path.deviations(poses)
    right = np.ones(len(poses), bool)
    right[[5, 9]] = False
    assert turned[right].max() < 1e-3 and moved[right].max() < 1e-3
    assert turned[5] > 0.1 and moved[9] > 0.1
    expected = np.linalg.norm(other.scale * other.turn @ (0, 0, 1))
    assert np.isclose(abs(path.axis @ other.turn @ (0, 0, 1)) * other.scale, expected, atol=1e-4)


def test_a_pose_between_two_is_predicted() -> None:
    poses = poses_of(24)
    path = fit_path(np.delete(poses, 7, axis=0))
    assert path is not None
    angles = unwrapped(path.angles(poses))
    predicted = path.pose(angles[7])
    assert np.abs(predicted - poses[7]).max() < 1e-4
    steps = np.degrees(np.diff(angles))
    assert (np.sign(steps) == np.sign(steps[0])).all() and abs(np.abs(steps).mean() - 15) < 1


def test_too_few_or_equal_poses_have_no_path() -> None:
    poses = poses_of(6)
    assert fit_path(poses[:2]) is None
    assert fit_path(np.repeat(poses[:1], 6, axis=0)) is None


def test_models_are_aligned_though_sides_look_alike() -> None:
    random = np.random.default_rng(3)
    path, other = fit_path(poses_of()), frame()
    moved = fit_path(np.stack([other.pose(pose) for pose in poses_of()]))
    assert path is not None and moved is not None
    theirs = random.uniform(-0.4, 0.4, (300, 3))
    ours = theirs.copy()
    ours[:80] = ours[:80] @ QUARTER.T  # matched to the next side
    ours[80:160] = random.permutation(ours[80:160])  # matched to anything
    theirs = other.scale * theirs @ other.turn.T + other.shift
    made = align(moved, path, theirs, ours)
    assert made is not None
    assert np.isclose(made.scale, other.scale, rtol=1e-3)
    assert np.allclose(made.turn, other.turn, atol=1e-3) and np.allclose(made.shift, other.shift, atol=1e-2)
    assert made.agreeing >= 100 and 50 <= made.second <= 90


def test_models_are_not_aligned_by_points_on_the_axis() -> None:
    path = fit_path(poses_of())
    assert path is not None
    points = np.random.default_rng(0).uniform(-1, 1, (40, 3)) * (1e-9, 1e-9, 1)
    points[0] = (1, 0, 0)
    assert align(path, path, points[:2], points[:2]) is None


def test_a_pose_keeps_what_it_sees_in_another_frame() -> None:
    other, pose = frame(), poses_of(3)[1]
    point = np.array([0.1, -0.2, 0.3])
    there = other.scale * other.turn @ point + other.shift
    again = other.pose(pose)
    seen, before = again[:, :3] @ there + again[:, 3], pose[:, :3] @ point + pose[:, 3]
    assert np.allclose(seen / seen[2], before / before[2])
    centre = other.scale * other.turn @ centre_of(pose) + other.shift
    assert np.allclose(centre_of(again), centre)


def test_the_camera_of_a_path_is_on_a_circle() -> None:
    path = fit_path(poses_of())
    assert isinstance(path, TurnPath)
    centres = np.array([centre_of(path.pose(angle)) for angle in np.linspace(0, 6, 7)])
    away = centres - path.point
    across = away - np.outer(away @ path.axis, path.axis)
    assert np.allclose(np.linalg.norm(across, axis=1), path.radius)
