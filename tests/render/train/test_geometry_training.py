"""Training with losses of the geometry, of surfels and of Gaussians as planes; and what surfels reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from moving import Moving, assert_replayed_alike, assert_resumed_alike, assert_waits_for_nothing
from test_step import STRATEGIES, assert_same_step, general, in_the_middle

from luxel.render.errors import LuxelError
from luxel.render.geometry.lens import fisheye_lens
from luxel.render.primitives import PRIMITIVES
from luxel.render.train import TrainConfig, Trainer
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.presets import preset
from luxel.scenes import open as open_capture
from luxel.scenes.synthetic.captures.shape_captures import write_shape_capture

NAMES = ["gaussians", "surfels"]
FIRST = {"gaussians": "flatness_weight", "surfels": "distortion_weight"}  # besides that of the normals


def geometry(config: TrainConfig, weight: float = 1.0) -> TrainConfig:
    """The configuration with both losses of the geometry from the first step on."""
    loss: Any = config.loss
    setattr(loss, FIRST[config.primitive], weight)
    loss.normal_weight, loss.normal_from = weight, 0.0
    if config.primitive == "surfels":
        loss.distortion_from = 0.0
    return config


@pytest.mark.parametrize("depth", ["none", "maps"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, name: str, batch: int, masked: bool, depth: str
) -> None:
    capture = Moving(1.0, masked, depth=depth != "none")
    config = capture.config(name, steps=2000, strategy=STRATEGIES[name](), batch=batch, sh_every=0)
    config.deterministic, config.depth, config.suppress_floaters = True, depth, masked
    fused = capture.trainer(tmp_path / "a", geometry(config, 0.3), device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)


def test_poses_are_refined_through_the_planes(tmp_path: Path) -> None:
    capture = Moving(0.0)
    config = capture.config("gaussians", steps=2000, strategy=FixedCount(), sh_every=0)
    config.deterministic, config.refine_poses = True, True
    fused = capture.trainer(tmp_path / "a", geometry(config, 5.0))
    plain = general(capture.trainer(tmp_path / "b", config))
    in_the_middle(fused)
    assert_same_step(fused, plain)
    tables = [trainer.queue._models.poses for trainer in (fused, plain)]
    every = torch.arange(len(capture.train))
    moved = [table.rows(every) for table in tables if table is not None]
    assert moved[0].any()
    torch.testing.assert_close(moved[0], moved[1], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "loss", "moving"),
    [
        ("surfels", "distortion_weight", "means"),
        ("surfels", "normal_weight", "quats"),
        ("gaussians", "flatness_weight", "log_scales"),
        ("gaussians", "normal_weight", "quats"),
    ],
)
def test_the_losses_move_what_the_images_leave_open(
    tmp_path: Path, name: str, loss: str, moving: str
) -> None:
    capture = Moving(0.0)
    moved = []
    for weight in (0.0, 1e-12, 5.0):
        config = geometry(capture.config(name, steps=2000, sh_every=0, deterministic=True), 0.0)
        setattr(config.loss, loss, weight)
        trainer = capture.trainer(tmp_path / str(weight), config)
        in_the_middle(trainer)
        trainer.step()
        trainer.synchronize()
        moved.append(trainer.store.exp_avg[moving].clone())
    torch.testing.assert_close(moved[1], moved[0], rtol=1e-4, atol=1e-12)
    assert (moved[2] - moved[0]).norm() > 0.1 * moved[0].norm()


def test_weights_of_another_primitive_are_refused() -> None:
    for primitive in ("convexes", "gaussians4d", "surfels"):
        with pytest.raises(LuxelError, match="flatness_weight"):
            TrainConfig.from_dict({"primitive": primitive, "loss": {"flatness_weight": 0.1}})


def spread(trainer: Trainer) -> float:
    """Mean distortion of the held-out views."""
    from luxel.render.primitives.surfels.geometry import distortion
    from luxel.render.primitives.terms import StepImages
    from luxel.render.raster.rasterize import rasterize

    total = 0.0
    for view in trainer.test_views:
        frame = rasterize(trainer.scene, view.camera, depth=True, normals=True)
        assert frame.depth is not None and frame.square_depth is not None and frame.normals is not None
        images = StepImages(
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
    """At least what as many Gaussians reach after the same steps, on ray-traced images of solids."""
    reached = {}
    write_shape_capture(tmp_path / "blocks", "blocks", views=24, side=64)
    capture = open_capture(tmp_path / "blocks")
    for name in ("gaussians", "surfels"):
        config = preset("default", name)
        config.steps, config.lpips, config.save_renders, config.strategy = 300, False, 0, FixedCount()
        config.init = PRIMITIVES[name].init(sh_degree=1, opacity=0.5, max_points=1000)
        trainer = Trainer(
            config, capture.train, capture.test, capture.points, tmp_path / name, say=lambda _: None
        )
        result = trainer.run(progress=False)
        assert result.evaluation is not None and result.count == 1000
        reached[name] = result.evaluation.mean.psnr
    assert reached["surfels"] > reached["gaussians"], reached


@pytest.mark.parametrize("name", NAMES)
def test_presets_and_resuming_with_the_losses(tmp_path: Path, name: str) -> None:
    chosen: Any = preset("surface", name).loss
    assert chosen.normal_weight > 0 and getattr(chosen, FIRST[name]) > 0
    capture = Moving(0.0)
    config = geometry(capture.config(name, steps=40))
    if name == "surfels":
        loss: Any = config.loss
        loss.geometry_final, loss.geometry_final_from = 0.1, 0.2  # weights of their own in each step
    assert_resumed_alike(capture, config, tmp_path, every=15, stop=17)


def test_what_the_losses_do_not_support_is_refused(tmp_path: Path) -> None:
    capture = Moving(0.0)
    config = geometry(capture.config("gaussians"))
    with pytest.raises(LuxelError, match="losses of the geometry do not support rolling_shutter"):
        replace(config, rolling_shutter=True).check()
    with pytest.raises(LuxelError, match="the gsplat backend does not support losses of the geometry"):
        replace(config, backend="gsplat").check()
    bent = replace(capture.train[3].camera, lens=fisheye_lens())
    capture.train[3] = replace(capture.train[3], camera=bent)
    with pytest.raises(LuxelError, match="The losses of the geometry cannot use cameras with a fisheye"):
        capture.trainer(tmp_path / "lens", config)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_steps_with_the_losses_are_captured(tmp_path: Path, device: torch.device, name: str) -> None:
    """They wait for nothing, and replayed ones have the bits of those that are called."""
    capture = Moving(0.0)
    settings = {"strategy": FixedCount(), "sh_every": 0, "reorder_every": 0, "deterministic": True}
    config = geometry(capture.config(name, steps=30_000, **settings))
    trainer = capture.trainer(tmp_path / "run", config, device=device)
    for _ in range(60):
        trainer.step()
    assert_waits_for_nothing(trainer)
    config = geometry(capture.config(name, steps=60, **settings))
    assert_replayed_alike(capture, config, tmp_path, device)
