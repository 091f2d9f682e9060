"""Captures made from a seed: the exact solid, the room, the street of two scales and its copy in a map."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.geometry.camera import Camera
from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.exact_solid import (
    RADIUS,
    exact_solid_cameras,
    make_exact_solid,
    write_exact_solid,
)
from luxel.scenes.synthetic.captures.room import make_room_solids, room_cameras, write_room
from luxel.scenes.synthetic.captures.street import (
    make_street_solids,
    street_cameras,
    utm_origin,
    write_street,
    write_utm_copy,
)
from luxel.scenes.synthetic.rays.ray_caster import StaticScene

SIDE = 28  # pixels of images of the exact solid
SMALL: dict[str, Any] = {"views": 3, "width": 48, "height": 32, "points": 200, "device": "cpu"}


def projected(camera: Camera, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixel coordinates [P, 2] and depths [P] of world points."""
    pose = camera.world_to_cam.double()
    local = points.double() @ pose[:3, :3].T + pose[:3, 3]
    fx, fy, cx, cy = camera.intrinsics.double().tolist()
    xy = local[:, :2] / local[:, 2:] * torch.tensor([fx, fy]) + torch.tensor([cx, cy])
    return xy, local[:, 2]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exact")
    return write_exact_solid(folder, seed=7, views=3, held_out=1, side=SIDE, device="cpu")


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_street(tmp_path_factory.mktemp("street"), seed=5, **SMALL)


def test_an_exact_solid_opens_with_its_split_and_its_coverage(exact: Path) -> None:
    capture = open_capture(exact)
    assert (len(capture.train), len(capture.test)) == (3, 1)
    expected = exact_solid_cameras(3, SIDE, seed=7) + exact_solid_cameras(1, SIDE, seed=7, held_out=True)
    solid = make_exact_solid(7)
    for view, camera in zip([*capture.train, *capture.test], expected, strict=True):
        assert torch.allclose(view.camera.world_to_cam, camera.world_to_cam, atol=1e-5)
        assert torch.allclose(view.camera.intrinsics, camera.intrinsics, rtol=1e-5)
    for view in (capture.train[0], capture.test[0]):
        alpha = view.read().alpha
        assert alpha is not None
        coverage = solid.render(view.camera)[0][..., 3].numpy()
        assert np.abs(alpha / 255 - coverage).max() < 0.01 and 0.03 < coverage.mean() < 0.7


def test_pixels_of_an_exact_solid_lie_on_its_surface(exact: Path) -> None:
    solid, first, second = make_exact_solid(7), *exact_solid_cameras(3, SIDE, seed=7)[:2]
    depth = solid.render(first, samples=1)[1]
    row, column = depth.isfinite().nonzero().unbind(1)
    fx, fy, cx, cy = first.intrinsics.tolist()
    rays = torch.stack([(column + 0.5 - cx) / fx, (row + 0.5 - cy) / fy, torch.ones_like(row)], -1)
    points = (rays * depth[row, column, None]) @ first.world_to_cam[:3, :3] + first.position
    assert float(solid.distances(points).abs().max()) < 2e-3
    assert float(points.norm(dim=1).max()) < RADIUS
    xy, away = projected(second, points)
    covered = torch.nn.functional.max_pool2d(solid.render(second)[0][None, ..., 3], 3, 1, 1)[0] > 0
    assert bool((away > 0).all()) and bool(covered[xy[:, 1].long(), xy[:, 0].long()].all())


def test_an_exact_solid_needs_views_of_both_kinds(tmp_path: Path) -> None:
    for counts in ({"views": 0}, {"held_out": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            write_exact_solid(tmp_path, seed=1, **counts)


@pytest.mark.parametrize("seed", range(4))
def test_solids_of_any_seed_stay_within_their_ball(seed: int) -> None:
    directions = torch.nn.functional.normalize(
        torch.randn(4000, 3, generator=torch.Generator().manual_seed(seed))
    )
    assert float(make_exact_solid(seed).distances(RADIUS * directions).min()) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: make_exact_solid(seed).added,
        make_room_solids,
        make_street_solids,
        lambda seed: [camera.position.tolist() for camera in room_cameras(8, width=9, height=6, seed=seed)],
        lambda seed: [camera.position.tolist() for camera in street_cameras(8, width=9, height=6, seed=seed)],
        lambda seed: [camera.position.tolist() for camera in exact_solid_cameras(8, 9, seed=seed)],
    ],
    ids=["exact", "room", "street", "room cameras", "street cameras", "exact cameras"],
)
def test_a_seed_makes_the_same_again_and_another_one_another(make: Callable[[int], Any]) -> None:
    assert repr(make(3)) == repr(make(3)) != repr(make(4))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    ("solids", "cameras", "least"),
    [(make_room_solids, room_cameras, 0.2), (make_street_solids, street_cameras, 0.15)],
    ids=["room", "street"],
)
def test_cameras_stand_clear_of_all_solids(solids: Any, cameras: Any, least: float, seed: int) -> None:
    scene = StaticScene(solids(seed), seed, shadow_side=0)
    looks = cameras(16, width=9, height=6, seed=seed)
    nearest = [float(scene.depth(camera).min()) for camera in looks]
    assert min(nearest) > least
    assert all(bool(scene.depth(camera).isfinite().all()) for camera in looks[:6]), "something is everywhere"


def test_a_street_has_two_scales() -> None:
    scene = StaticScene(make_street_solids(3), 3, shadow_side=0)
    depths = torch.cat([scene.depth(c).flatten() for c in street_cameras(8, width=36, height=24, seed=3)])
    assert float(depths.quantile(0.1)) < 3 and float((depths > 100).double().mean()) > 0.02


def test_points_and_poses_of_a_room_are_those_of_its_scene(tmp_path: Path) -> None:
    write_room(tmp_path, seed=2, **SMALL)
    capture = open_capture(tmp_path, holdout_every=0)
    scene = StaticScene(make_room_solids(2), 2, shadow_side=0)
    points = torch.from_numpy(capture.points.xyz)
    assert len(points) == 200 and len(capture.train) == 3
    visible = torch.zeros(len(points), dtype=torch.bool)
    for view, camera in zip(capture.train, room_cameras(3, width=48, height=32, seed=2), strict=True):
        assert torch.allclose(view.camera.world_to_cam, camera.world_to_cam, atol=1e-5)
        xy, away = projected(view.camera, points)
        inside = (away > 0) & (xy > 0).all(1) & (xy[:, 0] < 48) & (xy[:, 1] < 32)
        depth = scene.depth(camera, samples=4)
        x, y = (4 * xy[inside]).long().unbind(1)
        visible[inside] |= (depth[y, x] - away[inside]).abs() < 0.03 * away[inside]
    assert float(visible.double().mean()) > 0.9


def test_a_copy_in_a_map_is_the_street_far_from_the_origin(street: Path, tmp_path: Path) -> None:
    write_utm_copy(street, tmp_path / "utm", seed=5)
    here, there = open_capture(street), open_capture(tmp_path / "utm")
    origin = utm_origin(5)
    assert (origin > (3.9e5, 5.1e6, 99)).all() and not here.shift.any() and there.shift.any()
    offset = torch.from_numpy(origin - there.shift)
    for left, right in zip([*here.train, *here.test], [*there.train, *there.test], strict=True):
        assert Path(left.name).name == Path(right.name).name
        assert torch.allclose(
            left.camera.position.double() + offset, right.camera.position.double(), atol=1e-5
        )
        assert torch.allclose(left.camera.world_to_cam[:3, :3], right.camera.world_to_cam[:3, :3], atol=1e-6)
        assert np.array_equal(left.read().rgb, right.read().rgb)
    assert np.abs(here.points.xyz + offset.numpy() - there.points.xyz).max() < 1e-4
    assert (here.points.rgb == there.points.rgb).all()


def test_a_copy_is_made_where_files_cannot_be_linked(
    street: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("luxel.scenes.synthetic.captures.static_capture.os.link", refuse)
    for _ in range(2):  # over an earlier one too
        write_utm_copy(street, tmp_path, seed=6)
    names = [frame["file_path"] for frame in json.loads((street / "transforms.json").read_text())["frames"]]
    assert all((tmp_path / name).read_bytes() == (street / name).read_bytes() for name in names)
