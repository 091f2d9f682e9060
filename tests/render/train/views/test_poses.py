"""Refinement of camera poses: the correction itself, one camera on a scene that is known, and a whole training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_run import drop_checkpoints

from luxel.render.geometry.camera import Camera
from luxel.render.metrics.pose_refinement import refine_camera
from luxel.render.ops.train.view_pose import view_pose
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.train.view_models import rotation_matrix
from luxel.render.train.views.poses import PoseRefinement, similarities
from luxel.scenes.synthetic.toy import ring_cameras, torus_knot


def directions(count: int, seed: int) -> Tensor:
    """Unit vectors, [count, 3]."""
    random = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, 3, generator=random), dim=1)


def disturbed(poses: Tensor, degrees: float, distance: float, seed: int = 0) -> Tensor:
    """Poses [B, 4, 4] turned by an angle and moved by a distance, each in a direction of its own."""
    count = poses.shape[0]
    turns = math.radians(degrees) * directions(count, seed)
    return view_pose(poses, torch.cat([turns, distance * directions(count, seed + 1)], 1), 1.0)


def mean_errors(poses: Tensor, exact: Tensor) -> tuple[float, float]:
    """Angle in degrees and distance of the centres, means over B poses."""
    turns = (poses[:, :3, :3] @ exact[:, :3, :3].mT).diagonal(dim1=1, dim2=2).sum(-1)
    centres = [-(m[:, :3, :3].mT @ m[:, :3, 3:])[..., 0] for m in (poses, exact)]
    angles = (0.5 * (turns - 1)).clamp(-1, 1).acos()
    return math.degrees(float(angles.mean())), float((centres[0] - centres[1]).norm(dim=-1).mean())


@pytest.mark.parametrize("size", [0.0, 1e-5, 1e-3, 0.5, 3.0])
def test_rotation_matrices_are_matrix_exponentials(size: float) -> None:
    x, y, z = (size * directions(4, 3).double()).unbind(-1)
    vectors, zero = torch.stack([x, y, z], -1), torch.zeros_like(x)
    skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).view(4, 3, 3)
    torch.testing.assert_close(rotation_matrix(vectors), torch.linalg.matrix_exp(skew), atol=1e-12, rtol=0)
    assert torch.autograd.gradcheck(rotation_matrix, vectors.requires_grad_(), atol=1e-9)


def test_a_camera_turns_about_its_centre_and_moves_along_the_world() -> None:
    camera = Camera.look_at((1, 2, 3), (0, 0, 0))
    turned = view_pose(camera.world_to_cam[None], torch.tensor([[0.0, 0.0, math.pi / 2, 0, 0, 0]]), 1.0)[0]
    after = replace(camera, world_to_cam=turned)
    torch.testing.assert_close(after.position, camera.position, atol=1e-5, rtol=0)
    forward = camera.world_to_cam[2, :3]
    expected = torch.stack([-forward[1], forward[0], forward[2]])  # a quarter turn about z
    torch.testing.assert_close(turned[2, :3], expected, atol=1e-6, rtol=0)
    shifted = view_pose(camera.world_to_cam[None], torch.tensor([[0, 0, 0, 0.25, 0.0, -0.5]]), 2.0)[0]
    after = replace(camera, world_to_cam=shifted)
    torch.testing.assert_close(
        after.position - camera.position, torch.tensor([0.5, 0.0, -1.0]), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(shifted[:3, :3], camera.world_to_cam[:3, :3], atol=1e-6, rtol=0)


def test_the_start_is_the_pose_that_was_given() -> None:
    cameras = ring_cameras(4)
    poses = torch.stack([camera.world_to_cam for camera in cameras])
    centres = torch.stack([camera.position for camera in cameras])
    refinement = PoseRefinement(centres, 2.0, torch.device("cpu"))
    same = refinement.apply(poses, refinement.table.rows(torch.arange(4)))
    torch.testing.assert_close(same, poses, atol=1e-6, rtol=0)


def test_the_cameras_as_a_whole_stay_where_they_are() -> None:
    cameras = ring_cameras(9)
    poses = torch.stack([camera.world_to_cam for camera in cameras])
    centres = torch.stack([camera.position for camera in cameras])
    refinement = PoseRefinement(centres, 2.0, torch.device("cpu"))
    table, random = refinement.table, torch.Generator().manual_seed(0)
    for sample in range(900):  # pulls at all cameras alike, and a little at each
        pull = torch.tensor([[0.5, -1.0, 0.3, 1.0, 0.2, -0.7]]) + 0.3 * torch.randn(1, 6, generator=random)
        schedule = torch.tensor(table.schedule(sample, 9 * 450))
        table.update_(torch.tensor([sample % 9]), pull, schedule, torch.zeros(1, dtype=torch.int32))
    after = refinement.apply(poses, table.values)
    now = -(after[:, :3, :3].mT @ after[:, :3, 3:])[..., 0]
    assert (now - centres).norm(dim=1).mean() > 1e-3, "each has moved"
    arms, moved_by = centres - centres.mean(0), now - centres
    assert moved_by.mean(0).norm() < 1e-5
    assert abs(float((arms * moved_by).sum() / arms.square().sum())) < 1e-5, "no larger"
    turned = torch.linalg.cross(arms, moved_by).sum(0) + 4.0 * table.values[:, :3].sum(0)
    assert turned.norm() < 1e-4, "turns of the centres and of the cameras cancel"


def test_cameras_in_one_place_have_no_size() -> None:
    assert similarities(torch.zeros(5, 3), 1.0).shape == (30, 6)
    basis = similarities(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), 1.0)
    torch.testing.assert_close(basis.T @ basis, torch.eye(7).double(), atol=1e-12, rtol=0)


def test_a_camera_is_moved_to_where_a_known_scene_looks_like_its_photograph() -> None:
    scene, camera = torus_knot(300), ring_cameras(5, width=96, height=80)[1]
    image = rasterize(scene, camera).rgb.detach().clamp(0, 1)
    wrong = replace(camera, world_to_cam=disturbed(camera.world_to_cam[None], 1.0, 0.05)[0])
    before = mean_errors(wrong.world_to_cam[None], camera.world_to_cam[None])
    assert before == (pytest.approx(1.0, abs=0.01), pytest.approx(0.05, abs=1e-4))
    better = refine_camera(scene, wrong, image, extent=4.0)
    after = mean_errors(better.world_to_cam[None], camera.world_to_cam[None])
    assert after[0] < 0.1 and after[1] < 0.01
    kept = refine_camera(scene, camera, image, extent=4.0)
    assert mean_errors(kept.world_to_cam[None], camera.world_to_cam[None])[0] < 0.02, "an exact pose stays"


def with_poses(run: Any, poses: Tensor) -> Any:
    """Gives a run's training views other poses."""
    views = zip(run.train, poses, strict=True)
    run.train = [replace(view, camera=replace(view.camera, world_to_cam=pose)) for view, pose in views]
    return run


def test_the_fused_step_is_the_step_of_autograd(toy_cutout: Any, tmp_path: Path) -> None:
    exact = torch.stack([view.camera.world_to_cam for view in toy_cutout.train])
    with_poses(toy_cutout, disturbed(exact, 0.5, 0.04))
    config = toy_cutout.config(refine_poses=True, exposure="gain", batch=2)
    fused, plain = (toy_cutout.trainer(tmp_path / name, config) for name in "ab")
    plain.queue._fused = False
    for trainer in (fused, plain):
        for _ in range(7):
            trainer.step()
        trainer.synchronize()
    values = fused.models.poses.table.values
    assert values.abs().max() > 5e-4
    torch.testing.assert_close(values, plain.models.poses.table.values, atol=1e-6, rtol=1e-3)
    torch.testing.assert_close(fused.scene.means, plain.scene.means, atol=1e-5, rtol=0)


def test_disturbed_poses_come_back(toy: Any, tmp_path: Path) -> None:
    exact = torch.stack([view.camera.world_to_cam for view in toy.train])
    scores = {}
    for name, poses, refine in (
        *(("exact", exact, False), ("kept", disturbed(exact, 0.5, 0.044), False)),
        ("refined", disturbed(exact, 0.5, 0.044), True),
    ):
        config = toy.config(steps=600, refine_poses=refine)
        trainer = with_poses(toy, poses).trainer(tmp_path / name, config)
        evaluation = trainer.run(progress=False).evaluation
        scores[name] = evaluation.mean.psnr_refined if refine else evaluation.mean.psnr
        if refine:
            assert "refined dB" in evaluation.table()
            before, after = (
                mean_errors(p, exact)
                for p in (poses, trainer.models.poses.apply(poses, trainer.models.poses.table.values))
            )
            assert after[0] < 0.8 * before[0] and after[1] < 0.6 * before[1]
    assert scores["exact"] - scores["kept"] > 3
    assert scores["exact"] - scores["refined"] < 0.5


def test_a_stopped_run_ends_like_one_that_was_not(toy: Any, tmp_path: Path, same_state: Any) -> None:
    config = toy.config(steps=40, refine_poses=True)
    config.checkpoints.every = 20
    whole = toy.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    drop_checkpoints(tmp_path / "whole", after=20)
    again = toy.resume(tmp_path / "whole")
    assert again.steps_done == 20
    again.run(progress=False)
    assert same_state(whole, again)
    assert torch.equal(again.models.poses.table.values, whole.models.poses.table.values)
