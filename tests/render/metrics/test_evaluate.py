"""Scores of a scene on views whose photographs the renderer itself made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.metrics.evaluate import Evaluation, ViewScore, evaluate
from luxel.render.metrics.image_metrics import MetricError
from luxel.render.ops.train.view_pose import view_pose
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.train.monitor.loss_monitor import LossMonitor
from luxel.render.train.step.objective import squared_error
from luxel.render.train.views.dataset import Target
from luxel.viewer.reports.scoring import psnr_in_words

WHITE = (1.0, 1.0, 1.0)


def render(gaussians: Gaussians, camera: Camera, background: tuple[float, ...]) -> np.ndarray:
    rgb = rasterize(gaussians, camera, background=torch.tensor(background)).rgb
    return (rgb.clamp(0, 1) * 255).round().byte().numpy()


def view(name: str, camera: Camera, **pixels: Any) -> View:
    return View(name, camera, lambda: Pixels(**pixels))


@pytest.fixture
def scene(random_gaussians: Callable[..., Gaussians]) -> Gaussians:
    return random_gaussians(60, seed=3)


def test_a_scene_rendered_by_itself_scores_perfectly(
    scene: Gaussians, toy_camera: Callable[..., Camera], device: torch.device
) -> None:
    cameras = [toy_camera(52, 40), toy_camera(37, 33, eye=(3.0, 1.0, 0.5))]
    views = [view(f"{i}.png", c, rgb=render(scene, c, WHITE)) for i, c in enumerate(cameras)]
    reported = []
    result = evaluate(
        scene, views, background=WHITE, device=device, on_view=lambda *given: reported.append(given)
    )
    assert [s.name for s in result.scores] == ["0.png", "1.png"]
    for score, camera in zip(result.scores, cameras, strict=True):
        assert (score.width, score.height) == (camera.width, camera.height)
        assert score.psnr > 55 and score.ssim > 0.999 and 0 <= score.lpips < 1e-3  # bytes against floats
    assert len(reported) == 2
    for (reported_view, score, rendered, truth), expected, given in zip(
        reported, result.scores, views, strict=True
    ):
        assert reported_view is given and score == expected
        assert rendered.shape == truth.shape == (given.camera.height, given.camera.width, 3)
    wrong = evaluate(scene, views, background=(0, 0, 0), device=device)
    assert wrong.mean.psnr < 30


def test_known_scores_are_taken_and_their_views_only_rendered(
    scene: Gaussians, toy_camera: Callable[..., Camera]
) -> None:
    cameras = [toy_camera(52, 40), toy_camera(37, 33, eye=(3.0, 1.0, 0.5))]
    views = [view(f"{i}.png", c, rgb=render(scene, c, WHITE)) for i, c in enumerate(cameras)]
    known = {"1.png": ViewScore("1.png", 12.5, 0.25, 0.5, 37, 33)}
    images: list[torch.Tensor] = []
    result = evaluate(
        scene,
        views,
        background=WHITE,
        lpips=False,
        known=known,
        on_view=lambda *given: images.append(given[2]),
    )
    assert result.scores[0].psnr > 55 and result.scores[1] is known["1.png"]
    assert [tuple(image.shape) for image in images] == [(40, 52, 3), (33, 37, 3)]


def test_the_photograph_is_composited_by_its_alpha(
    scene: Gaussians, toy_camera: Callable[..., Camera]
) -> None:
    camera = toy_camera(48, 40)
    rgb = render(scene, camera, WHITE)
    alpha = np.full((40, 48), 255, np.uint8)
    alpha[:, :20] = 0
    straight = rgb.copy()
    straight[:, :20] = 17  # whatever lies under alpha 0 must not show
    composited = rgb.copy()
    composited[:, :20] = 255
    by_alpha = evaluate(scene, [view("a", camera, rgb=straight, alpha=alpha)], background=WHITE)
    by_hand = evaluate(scene, [view("a", camera, rgb=composited)], background=WHITE)
    assert by_alpha.scores == by_hand.scores and by_alpha.mean.psnr < 40


def test_pixels_without_weight_do_not_count(scene: Gaussians, toy_camera: Callable[..., Camera]) -> None:
    camera = toy_camera(48, 40)
    rgb = render(scene, camera, WHITE)
    weight = np.full((40, 48), 255, np.uint8)
    weight[10:30, 5:25] = 0
    spoilt = rgb.copy()
    spoilt[10:30, 5:25] ^= 255
    counted = evaluate(scene, [view("a", camera, rgb=spoilt)], background=WHITE)
    ignored = evaluate(scene, [view("a", camera, rgb=spoilt, weight=weight)], background=WHITE)
    assert ignored.mean.psnr > 55 and ignored.mean.ssim > 0.999 and ignored.mean.lpips < 1e-3
    assert counted.mean.psnr < 30
    none = evaluate(scene, [view("a", camera, rgb=rgb, weight=0 * weight)], background=WHITE)
    assert math.isnan(none.mean.psnr) and math.isnan(none.mean.ssim)


def test_lpips_is_left_out_where_it_cannot_be_taken(
    scene: Gaussians, toy_camera: Callable[..., Camera]
) -> None:
    small, large = toy_camera(20, 20), toy_camera(40, 40)
    views = [view(str(c.width), c, rgb=render(scene, c, WHITE)) for c in (small, large)]
    result = evaluate(scene, views, background=WHITE)
    assert math.isnan(result.scores[0].lpips) and result.mean.lpips == result.scores[1].lpips
    assert math.isnan(evaluate(scene, views, background=WHITE, lpips=False).mean.lpips)


def test_without_its_weights_lpips_is_left_out_and_said(
    scene: Gaussians, toy_camera: Callable[..., Camera], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(device: torch.device) -> None:
        raise MetricError("The weights cannot be read.", "Install luxel again.")

    monkeypatch.setattr("luxel.render.metrics.evaluate.loaded_lpips", missing)
    camera = toy_camera(40, 40)
    views = [view("a", camera, rgb=np.zeros((40, 40, 3), np.uint8))]
    said: list[str] = []
    mean = evaluate(scene, views, say=said.append).mean
    assert math.isnan(mean.lpips) and math.isfinite(mean.psnr)
    assert len(said) == 1 and said[0].endswith("Continuing without LPIPS.")
    with pytest.raises(MetricError, match="cannot be read"):
        evaluate(scene, views)


def test_exposures_and_poses_can_be_left_out(scene: Gaussians, toy_camera: Callable[..., Camera]) -> None:
    camera = toy_camera(64, 48)
    rgb = render(scene, camera, WHITE)
    dark = view("dark", camera, rgb=(0.6 * rgb + 10).astype(np.uint8))
    shifted = view_pose(camera.world_to_cam[None], torch.tensor([[0.0, 0.0, 0.0, 0.03, 0.0, 0.0]]), 1.0)[0]
    beside = view("beside", replace(camera, world_to_cam=shifted), rgb=rgb)
    scores = evaluate(scene, [dark, beside], background=WHITE, lpips=False, aligned=True, refine=3.0).scores
    assert scores[0].psnr < 22 and scores[0].psnr_aligned > 45
    assert scores[1].psnr_refined > scores[1].psnr + 10
    text = Evaluation(scores).table()
    assert text.splitlines()[0].split() == [
        "view",
        "PSNR",
        "dB",
        "aligned",
        "dB",
        "refined",
        "dB",
        "SSIM",
        "LPIPS",
        "size",
    ]
    mean = Evaluation(scores).as_dict()["mean"]
    assert isinstance(mean, dict)
    assert mean["psnr_aligned"] == pytest.approx(sum(s.psnr_aligned for s in scores) / 2)


def test_a_view_with_depth_is_rendered_once(scene: Gaussians, toy_camera: Callable[..., Camera]) -> None:
    camera, rendered = toy_camera(48, 40), []

    def counting(*inputs: Any, **options: Any) -> Any:
        rendered.append(options.get("depth", False))
        return rasterize(*inputs, **options)

    with torch.no_grad():
        depth = rasterize(scene, camera, depth=True).depth
    assert depth is not None
    plain = view("plain", camera, rgb=render(scene, camera, WHITE))
    views = [replace(plain, depth=lambda: 1.25 * depth.numpy()), plain]
    options: dict[str, Any] = {"background": WHITE, "lpips": False}
    known, unknown = evaluate(scene, views, depth="metric", render=counting, **options).scores
    assert rendered == [True, False]
    assert known.depth_relative == pytest.approx(0.2, abs=1e-5) and math.isnan(unknown.depth_relative)
    colours = evaluate(scene, views, **options).scores[0]
    assert (known.psnr, known.ssim) == pytest.approx((colours.psnr, colours.ssim), rel=1e-4)


def test_table_and_json() -> None:
    result = Evaluation(
        [
            ViewScore("left.png", 20.0, 0.5, 0.25, 40, 30),
            ViewScore("a much longer name.png", 30.0, 0.7, math.nan, 40, 30),
        ]
    )
    lines = result.table().splitlines()
    assert lines[0].split() == ["view", "PSNR", "dB", "SSIM", "LPIPS", "size"]
    assert lines[1].split() == ["left.png", "20.00", "0.5000", "0.2500", "40x30"]
    assert lines[2].split()[-4:] == ["30.00", "0.7000", "-", "40x30"]
    assert lines[-1].split() == ["mean", "25.00", "0.6000", "0.2500"]
    data = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert data["mean"] == pytest.approx({"psnr": 25.0, "ssim": 0.6, "lpips": 0.25})
    assert data["views"][1]["lpips"] is None and data["views"][1]["name"] == "a much longer name.png"
    perfect = Evaluation([ViewScore("same.png", math.inf, 1.0, 0.0, 4, 3)])
    assert json.loads(json.dumps(perfect.as_dict(), allow_nan=False))["mean"]["psnr"] == "inf"
    assert "inf" in perfect.table()


def test_bad_views_are_named(scene: Gaussians, toy_camera: Callable[..., Camera], tmp_path: Path) -> None:
    with pytest.raises(LuxelError, match="no views") as error:
        evaluate(scene, [], background=WHITE)
    assert error.value.remedy
    wrong = View(
        "p.png", toy_camera(8, 6), lambda: Pixels(np.zeros((8, 6, 3), np.uint8)), path=tmp_path / "p.png"
    )
    with pytest.raises(LuxelError, match=rf"{tmp_path / 'p.png'}.*\[8, 6, 3\].*\[6, 8, 3\]"):
        evaluate(scene, [wrong], background=WHITE)


def test_views_of_which_nothing_counts_have_no_scores(
    scene: Gaussians, toy_camera: Callable[..., Camera]
) -> None:
    camera = toy_camera(48, 40)
    rgb, none = render(scene, camera, WHITE), np.zeros((40, 48), np.uint8)
    views = [
        view("transparent", camera, rgb=rgb, alpha=none),
        view("without weight", camera, rgb=rgb, weight=none),
        view(
            "apart",
            camera,
            rgb=rgb,
            alpha=np.eye(40, 48, dtype=np.uint8) * 255,
            weight=255 - np.eye(40, 48, dtype=np.uint8) * 255,
        ),
        view("visible", camera, rgb=rgb),
    ]
    result = evaluate(scene, views, background=WHITE, aligned=True, refine=1.0)
    for score in result.scores[:3]:
        assert all(value is None for value in score.scores.values()) and score.further == {}
    assert result.mean.psnr == result.scores[3].psnr > 55
    assert psnr_in_words(result).endswith("3 of 4 views have no pixel that counts)")
    nothing = Evaluation(result.scores[:3])
    assert psnr_in_words(nothing) == "not measured, as no pixel of these views counts"
    assert math.isnan(nothing.mean.psnr) and nothing.as_dict()["mean"]["psnr"] is None


def test_the_error_of_a_step_in_which_no_pixel_counts_is_no_number(toy_camera: Callable[..., Camera]) -> None:
    rgb = torch.rand(4, 5, 3)
    target = Target(toy_camera(5, 4), rgb, None, torch.zeros(4, 5))
    assert math.isnan(float(squared_error(rgb, target)))
    assert math.isnan(LossMonitor().take(0.0, float(squared_error(rgb, target))))
