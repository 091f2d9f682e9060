"""Bundle adjustment on the path of a turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from luxel.scenes.captures.colmap_process.turn_adjustment import TurnBundle, about_z, adjusted
from luxel.scenes.synthetic.captures.turntable import turntable_views


def bundle(views: int = 16, points: int = 60) -> TurnBundle:
    """Two camera positions, points in the ball of the object, all observed by all images."""
    random = np.random.default_rng(0)
    made = turntable_views(views, 640, 480, rings=2)
    first = [next(view for view in made if view.ring == ring) for ring in (0, 1)]
    stills = np.stack([view.still.world_to_cam.double().numpy()[:3] for view in first])
    image, point = (rows.ravel() for rows in np.meshgrid(range(views), range(points), indexing="ij"))
    xyz = random.uniform(-0.35, 0.35, (points, 3)) + np.array([0, 0, 0.4])
    made_angles = np.array([view.angle for view in made])
    group = np.array([view.ring for view in made])
    start = TurnBundle(
        stills[:, :, :3],
        stills[:, :, 3],
        made_angles,
        group,
        900.0,
        xyz,
        image,
        point,
        np.zeros((len(image), 2)),
    )
    return replace(start, at=start.residuals())


def uneven(made: TurnBundle, right: TurnBundle) -> float:
    """Largest difference of angles within a camera position, of which the common part is arbitrary, degrees."""
    off = np.degrees(made.angles - right.angles)
    return max(float(np.ptp(off[right.group == group])) for group in (0, 1))


def test_angles_and_focal_length_are_recovered_from_a_drift() -> None:
    right, random = bundle(), np.random.default_rng(1)
    drift = np.radians(np.linspace(0, 4, 16)) + np.radians(random.normal(0, 0.5, 16))
    wrong = replace(
        right,
        angles=right.angles + drift,
        focal=960.0,
        points=right.points + random.normal(0, 0.01, right.points.shape),
    )
    made = adjusted(wrong)
    assert np.abs(made.residuals()).max() < 1e-2
    assert abs(made.focal - 900) < 1
    assert uneven(made, right) < 0.02


def test_wrong_observations_change_little() -> None:
    right, random = bundle(), np.random.default_rng(2)
    at = right.at + random.normal(0, 0.3, right.at.shape)
    at[::10] += random.uniform(-60, 60, at[::10].shape)
    made = adjusted(replace(right, at=at, angles=right.angles + np.radians(random.normal(0, 1, 16))))
    assert uneven(made, right) < 0.2


def test_poses_see_the_points() -> None:
    made = bundle()
    pose = made.poses()[3]
    local = made.points @ pose[:, :3].T + pose[:, 3]
    assert np.allclose(made.focal * local[:, :2] / local[:, 2:], made.at[made.image == 3])
    assert np.allclose(about_z(np.array([np.pi / 2]))[0] @ (1, 0, 0), (0, 1, 0))
