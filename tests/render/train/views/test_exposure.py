"""Exposure of training images: its parameters, its gradients, and what it does to a scene."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_run import drop_checkpoints

from luxel.render.geometry.camera import Camera, Pixels, View
from luxel.render.metrics.evaluate import evaluate
from luxel.render.ops.train.view_exposure import view_exposure
from luxel.render.train.config import Resolution
from luxel.render.train.views.exposure import Cameras, Exposure
from luxel.render.train.views.table import ViewTable

MODELS = ("gain", "affine", "camera")
WIDTHS = {"gain": 3, "affine": 12, "camera": 9}
CPU = torch.device("cpu")


def exposed(toy: Any, strength: float, seed: int = 0) -> np.ndarray:
    """Changes the exposure and white balance of a run's photographs, [V, 3] log factors of the training views."""
    random = np.random.default_rng(seed)
    logs = []

    def change(view: Any) -> Any:
        log = strength * (random.standard_normal() + 0.3 * random.standard_normal(3)) - 2 * strength
        logs.append(log)
        pixels = view.read()
        rgb = (pixels.rgb * np.exp(log)).clip(0, 255).round().astype(np.uint8)
        changed = Pixels(rgb, pixels.alpha, pixels.weight)
        return replace(view, read=lambda: changed)

    toy.train = [change(view) for view in toy.train]
    count = len(logs)
    toy.test = [change(view) for view in toy.test]
    return np.array(logs[:count])


def views(count: int) -> list[View]:
    """Views of one camera."""
    camera = Camera.look_at((0, -3, 0), (0, 0, 0), width=6, height=5)
    return [View(str(i), camera, lambda: Pixels(np.zeros((5, 6, 3), np.uint8))) for i in range(count)]


def log_factors(exposure: Exposure) -> torch.Tensor:
    """Logarithms of the factors by which colours of each view are multiplied, [V, 3]."""
    values = exposure.table.values
    if exposure.model == "camera":  # sRGB values are about the 2.2th root of light
        green = torch.zeros(len(values), 1)
        return (values[:, :1] + torch.cat([values[:, 1:2], green, values[:, 2:]], 1)) * math.log(2) / 2.2
    return values if exposure.model == "gain" else (1 + values[:, [0, 4, 8]]).log()


def test_each_view_has_an_adam_of_its_own() -> None:
    table, random = ViewTable("test", 5, 3, rate=0.1, final=1.0, device=CPU), torch.Generator().manual_seed(0)
    leaves = [torch.zeros(3, requires_grad=True) for _ in range(5)]
    adams = [torch.optim.Adam([leaf], lr=0.1, eps=1e-15) for leaf in leaves]
    samples = 5 * 450  # so many visits have the rate as it is given
    for sample in range(20):
        view, gradient = sample % 5, torch.randn(3, generator=random)
        schedule = torch.tensor(table.schedule(sample, samples))
        table.update_(torch.tensor([view]), gradient[None], schedule, torch.zeros(1, dtype=torch.int32))
        leaves[view].grad = gradient
        adams[view].step()
    expected = torch.stack(leaves).detach()
    torch.testing.assert_close(table.values, expected - expected.mean(0), atol=1e-5, rtol=0)


def test_views_of_one_step_that_are_the_same_add_their_gradients() -> None:
    one, two = (ViewTable("test", 3, 2, 0.1, 1.0, CPU) for _ in range(2))
    gradients, schedule = torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor(one.schedule(0, 100))
    go = torch.zeros(1, dtype=torch.int32)
    one.update_(torch.tensor([1, 1]), gradients, schedule, go)
    two.update_(torch.tensor([1]), gradients.sum(0, keepdim=True), schedule, go)
    torch.testing.assert_close(one.values, two.values, atol=0, rtol=0)
    assert one.values[1].abs().min() > 0 and torch.allclose(one.values.sum(0), torch.zeros(2), atol=1e-7)


def test_a_step_that_is_skipped_changes_nothing() -> None:
    table = ViewTable("test", 3, 2, 0.1, 1.0, CPU)
    arguments = torch.tensor([1]), torch.ones(1, 2), torch.tensor(table.schedule(0, 100))
    table.update_(*arguments, torch.zeros(1, dtype=torch.int32))
    before = {name: tensor.clone() for name, tensor in table.tensors().items()}
    table.update_(*arguments, torch.ones(1, dtype=torch.int32))
    assert all(torch.equal(before[name], tensor) for name, tensor in table.tensors().items())


@pytest.mark.parametrize("model", MODELS)
def test_the_start_is_the_identity(model: Any) -> None:
    exposure, image = Exposure(model, views(4), CPU), torch.rand(2, 5, 6, 3)
    parameters, through = exposure.rows(torch.tensor([0, 3])), torch.rand(2, 5, 6)
    rounding = 1e-6 if model == "camera" else 1e-7  # a camera decodes and encodes
    torch.testing.assert_close(exposure.apply(image, parameters), image, atol=rounding, rtol=0)
    behind = exposure.apply(image, parameters, through, torch.rand(2, 3))
    torch.testing.assert_close(behind, image, atol=1e-6, rtol=0)


@pytest.mark.parametrize("model", MODELS)
def test_the_background_keeps_its_colour(model: Any) -> None:
    exposure, parameters = Exposure(model, views(4), CPU), 0.3 * torch.randn(2, WIDTHS[model])
    background, through = torch.rand(2, 3), torch.ones(2, 5, 6)
    image = background[:, None, None].expand(2, 5, 6, 3)
    shown = exposure.apply(image, parameters, through, background)
    torch.testing.assert_close(shown, image, atol=1e-6, rtol=0)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cutout", [False, True], ids=["opaque", "cut out"])
def test_gradients_are_those_of_finite_differences(model: Any, cutout: bool) -> None:
    exposure, random = Exposure(model, views(4), CPU), torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.rand(*shape, generator=random, dtype=torch.float64)  # noqa: E731
    # Colours above the point where the two pieces of the sRGB curve meet, also without the background.
    background, through = 0.1 * draw(2, 3), 0.5 * draw(2, 3, 4)
    inputs = [0.2 + draw(2, 3, 4, 3), 0.2 * draw(2, WIDTHS[model]), through, background]
    background = inputs.pop() if cutout else None
    inputs = [tensor.requires_grad_() for tensor in (inputs if cutout else inputs[:2])]
    rounding = 2e-9 if model == "camera" else 1e-10  # of differences of its curves over 2e-6
    assert torch.autograd.gradcheck(
        lambda *leaves: exposure.apply(*leaves, background=background), inputs, atol=rounding, rtol=1e-7
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("cutout", [False, True], ids=["opaque", "cut out"])
def test_the_fused_step_is_the_step_of_autograd(
    toy: Any, toy_cutout: Any, tmp_path: Path, model: Any, cutout: bool
) -> None:
    run = toy_cutout if cutout else toy
    exposed(run, 0.3)
    config = run.config(steps=14, exposure=model, batch=2, background="random" if cutout else "auto")
    fused, plain = (run.trainer(tmp_path / name, config) for name in "ab")
    plain.queue._fused = False
    for trainer in (fused, plain):
        for _ in range(7):
            trainer.step()
        trainer.synchronize()
    values = fused.models.exposure.table.values
    assert values.abs().max() > 0.03
    torch.testing.assert_close(values, plain.models.exposure.table.values, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(fused.scene.means, plain.scene.means, atol=1e-5, rtol=0)


@pytest.mark.parametrize("model", MODELS)
def test_exposures_of_photographs_do_not_become_part_of_the_scene(
    toy: Any, tmp_path: Path, model: Any
) -> None:
    logs = exposed(toy, 0.25)
    scores, trainers = {}, {}
    for name in ("none", model):
        trainers[name] = toy.trainer(tmp_path / name, toy.config(steps=600, exposure=name))
        trainers[name].run(progress=False)
        black = (0.0, 0.0, 0.0)
        scores[name] = evaluate(trainers[name].scene, toy.test, background=black, lpips=False, aligned=True)
    if model == "gain":  # what was planted
        assert scores[model].mean.psnr_aligned > scores["none"].mean.psnr_aligned + 0.2
    learnt = log_factors(trainers[model].models.exposure)
    planted = torch.tensor(logs - logs.mean(0)).float()
    assert (learnt - learnt.mean(0) - planted).abs().mean() < 0.5 * planted.abs().mean()


@pytest.mark.parametrize("model", MODELS)
def test_a_stopped_run_ends_like_one_that_was_not(
    toy_cutout: Any, tmp_path: Path, same_state: Any, model: Any
) -> None:
    exposed(toy_cutout, 0.3)
    config = toy_cutout.config(exposure=model, steps=40, batch=3, resolution=Resolution(1, 0.5, 16))
    config.checkpoints.every = 20
    whole = toy_cutout.trainer(tmp_path / "whole", config)
    whole.run(progress=False)
    drop_checkpoints(tmp_path / "whole", after=20)
    again = toy_cutout.resume(tmp_path / "whole")
    assert again.steps_done == 20
    again.run(progress=False)
    assert same_state(whole, again)
    right = again.models.exposure.table.tensors()
    assert all(
        torch.equal(tensor, right[name]) for name, tensor in whole.models.exposure.table.tensors().items()
    )


def test_a_run_that_goes_on_can_begin_to_learn_exposures(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(steps=20))
    trainer.run(progress=False)
    more = toy.resume(tmp_path / "run", overrides={"exposure": "gain", "steps": 30})
    more.run(progress=False)
    assert more.models.exposure.table.values.abs().max() > 0


def test_held_out_views_are_scored_both_ways(toy: Any, tmp_path: Path) -> None:
    trainer = toy.trainer(tmp_path / "run", toy.config(exposure="affine"))
    evaluation = trainer.run(progress=False).evaluation
    assert "aligned dB" in evaluation.table()
    mean = evaluation.as_dict()["mean"]
    assert mean["psnr_aligned"] == pytest.approx(evaluation.mean.psnr_aligned)
    plain = toy.trainer(tmp_path / "plain", toy.config()).run(progress=False).evaluation
    assert math.isnan(plain.mean.psnr_aligned) and "psnr_aligned" not in plain.as_dict()["mean"]
    assert "aligned" not in plain.table()


def photographed(toy: Any, stops: list[float], vignetting: float, known: bool) -> None:
    """Photographs of a camera, with an exposure each and corners that are darker by so many stops."""
    numbers = iter(stops)

    def change(view: Any) -> Any:
        exposure, pixels = next(numbers), view.read()
        parameters = torch.tensor([[exposure, 0, 0, -vignetting, 0, 0, 0, 0, 0]])
        image = torch.from_numpy(pixels.rgb)[None].float() / 255
        rgb = (255 * view_exposure(image, parameters)[0]).clamp(0, 255).round().to(torch.uint8).numpy()
        return replace(view, read=lambda: Pixels(rgb), stops=exposure if known else None)

    toy.train, toy.test = ([change(view) for view in views] for views in (toy.train, toy.test))


@pytest.mark.parametrize("known", [True, False], ids=["EXIF", "unknown"])
def test_a_camera_learns_what_photographs_of_one_have(toy: Any, tmp_path: Path, known: bool) -> None:
    random = np.random.default_rng(0)
    stops = (0.6 * random.standard_normal(len(toy.train) + len(toy.test)) - 1.0).tolist()
    photographed(toy, stops, vignetting=1.5, known=known)
    aligned = {}
    for name in ("none", "camera"):
        trainer = toy.trainer(tmp_path / name, toy.config(steps=800, exposure=name))
        result = trainer.run(progress=False).evaluation
        black = (0.0, 0.0, 0.0)
        plain = evaluate(trainer.scene, toy.test, background=black, lpips=False, aligned=True)
        aligned[name] = (result if name == "camera" else plain).mean.psnr_aligned
    exposure = trainer.models.exposure
    planted = torch.tensor(stops[: len(toy.train)])
    off = exposure.table.values[:, 0] - (planted - planted.mean())
    assert off.abs().mean() < 0.5 * (planted - planted.mean()).abs().mean()
    r2 = torch.tensor([0.3**2, 0.6**2])
    learnt = (exposure.shared.values[0, :3] * torch.stack([r2, r2**2, r2**3], 1)).sum(1)
    assert -1.5 * 0.36 * 1.6 < float(learnt[1] - learnt[0]) < -1.5 * 0.27 * 0.4, "darker towards the corners"
    assert aligned["camera"] > aligned["none"] + 0.5


def test_exposures_start_at_what_is_known_of_the_photographs() -> None:
    given = [replace(view, stops=stops) for view, stops in zip(views(4), (1.0, 3.0, None, -1.0), strict=True)]
    exposure = Exposure("camera", given, CPU)
    assert exposure.table.values[:, 0].tolist() == [0.0, 2.0, 0.0, -2.0]
    assert exposure.rows(torch.tensor([1]))[0].tolist() == [2.0] + 8 * [0.0]
    assert not Exposure("gain", given, CPU).table.values.any()


def test_cameras_are_distinguished_by_size_and_intrinsics() -> None:
    def cameras(*kinds: tuple[int, float]) -> list[View]:
        near = [Camera.look_at((0, -3, 0), (0, 0, 0), width=w, height=5) for w, _ in kinds]
        scaled = [replace(c, intrinsics=c.intrinsics * f) for c, (_, f) in zip(near, kinds, strict=True)]
        return [replace(view, camera=c) for view, c in zip(views(len(kinds)), scaled, strict=True)]

    two = Cameras(cameras(*[(6, 1.0)] * 5, *[(6, 2.0)] * 5))
    assert two.count == 2 and [two.number(view) for view in cameras((6, 2.0), (6, 1.0), (7, 1.0))] == [
        1,
        0,
        None,
    ]
    each = Cameras(cameras(*[(6, 1 + 0.01 * i) for i in range(8)], (7, 1.0)))
    assert each.count == 2, "intrinsics of each image: the size says which camera it was"
