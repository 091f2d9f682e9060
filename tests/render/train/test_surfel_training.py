"""Training of surfels: the losses of their geometry in a step, and what a run reaches beside Gaussians."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from moving import Moving, assert_replayed_alike, assert_waits_for_nothing
from test_step import STRATEGIES, assert_same_step, general, in_the_middle

from luxel.render.train import Trainer
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset


def geometry(config, weight: float = 1.0):
    """The configuration with both losses of the geometry from the first step on."""
    config.loss.distortion_weight = config.loss.normal_weight = weight
    config.loss.distortion_from = config.loss.normal_from = 0.0
    return config


@pytest.mark.parametrize("depth", ["none", "maps"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, batch: int, masked: bool, depth: str
) -> None:
    capture = Moving(1.0, masked, depth=depth != "none")
    config = capture.config("surfels", steps=2000, strategy=STRATEGIES["surfels"](), batch=batch, sh_every=0)
    config.deterministic, config.depth = True, depth
    fused = capture.trainer(tmp_path / "a", geometry(config, 0.3), device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)


def test_the_losses_move_what_the_images_leave_open(tmp_path: Path) -> None:
    capture = Moving(0.0)
    moved = []
    for weight in (0.0, 1e-12, 5.0):
        config = capture.config("surfels", steps=2000, sh_every=0, deterministic=True)
        trainer = capture.trainer(tmp_path / str(weight), geometry(config, weight))
        trainer.step()
        trainer.synchronize()
        moved.append(trainer.optimizer.exp_avg["quats"].clone())
    torch.testing.assert_close(moved[1], moved[0], rtol=1e-4, atol=1e-12)
    assert (moved[2] - moved[0]).norm() > 0.1 * moved[0].norm()


def spread(trainer: Trainer) -> float:
    """Mean distortion of the held-out views."""
    from luxel.render.primitives.spec import GeometryImages
    from luxel.render.primitives.surfels.geometry import distortion
    from luxel.render.rasterize import rasterize

    total = 0.0
    for view in trainer.test_views:
        frame = rasterize(trainer.scene, view.camera, depth=True, normals=True)
        assert frame.depth is not None and frame.square_depth is not None and frame.normals is not None
        images = GeometryImages(
            depth=frame.depth * frame.alpha,
            square=frame.square_depth,
            normals=frame.normals,
            transmittance=1 - frame.alpha,
            weight=None,
            world_to_cam=view.camera.world_to_cam,
            intrinsics=view.camera.calibration,
        )
        total += distortion(images).item()
    return total / len(trainer.test_views)


def test_distortion_draws_surfels_together(tmp_path: Path) -> None:
    capture, results = Moving(0.0), []
    for weight in (0.0, 20.0):
        config = capture.config("surfels", steps=150, strategy=FixedCount())
        config.loss.distortion_weight = weight
        trainer = capture.trainer(tmp_path / str(weight), config)
        trainer.run(progress=False)
        results.append(spread(trainer))
    assert results[1] < 0.9 * results[0], results


def test_they_reach_what_gaussians_reach(tmp_path: Path) -> None:
    """Within 1.5 dB of as many Gaussians after the same steps, on a capture that is made of Gaussians."""
    capture, reached = Moving(0.0), {}
    for name in ("gaussians", "surfels"):
        config = capture.config(name, steps=300, strategy=FixedCount())
        result = capture.trainer(tmp_path / name, config).run(progress=False)
        assert result.evaluation is not None and result.count == 300
        reached[name] = result.evaluation.mean.psnr
    assert reached["surfels"] > reached["gaussians"] - 1.5, reached


def test_presets_and_resuming_with_the_losses(tmp_path: Path) -> None:
    assert preset("surface", "surfels").loss.normal_weight > 0
    capture = Moving(0.0)
    config = geometry(capture.config("surfels", steps=40))
    config.checkpoints.every = 15
    whole = capture.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    broken = capture.trainer(tmp_path / "broken", config)
    while broken.steps_done < 17:
        broken.step()
        broken.loop._save_when_due(broken)
    again = Trainer.resume(tmp_path / "broken", capture.train, capture.test, say=lambda _: None)
    assert again.steps_done == 15
    again.run(progress=False)
    for key, tensor in whole.optimizer.tensors().items():
        assert torch.equal(tensor, again.optimizer.tensors()[key]), key


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_steps_with_the_losses_are_captured(tmp_path: Path, device: torch.device) -> None:
    """They wait for nothing, and replayed ones have the bits of those that are called."""
    capture = Moving(0.0)
    settings = {"strategy": FixedCount(), "sh_every": 0, "reorder_every": 0, "deterministic": True}
    config = geometry(capture.config("surfels", steps=30_000, **settings))
    trainer = capture.trainer(tmp_path / "run", config, device=device)
    for _ in range(60):
        trainer.step()
    assert_waits_for_nothing(trainer)
    config = geometry(capture.config("surfels", steps=60, **settings))
    assert_replayed_alike(capture, config, tmp_path, device)
