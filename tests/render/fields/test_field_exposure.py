"""Exposures of training images of a radiance field: what they do to colours, their gradient, and what they learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from test_extent import CONFIG, SmallField, points_of_place, trained, walk
from test_radiance import ring
from torch import Tensor

from luxel.render.errors import LuxelError
from luxel.render.fields.capture.exposure import PENALTY, WIDTHS, Exposure
from luxel.render.fields.capture.posed_images import PosedImages, views_of
from luxel.render.fields.files import save_field
from luxel.render.fields.radiance import HUBER, RadianceConfig, RadianceField
from luxel.render.fields.training.optimizer import AUXILIARY_RATE, FieldOptimizer
from luxel.render.geometry.camera import Pixels, View
from luxel.render.ops.field.march_rays import LEFT_OUT, RAYS
from luxel.render.ops.train.view_exposure import view_exposure

CPU = torch.device("cpu")


def exposure_of(model: Any, views: int = 4) -> Exposure:
    """In double, of random parameters."""
    made = Exposure(model, views, CPU)
    generator = torch.Generator().manual_seed(5)
    made.table = 0.3 * torch.randn(made.table.shape, generator=generator, dtype=torch.float64)
    return made


def rays(count: int = 9) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Colours, image of each, transmittances, backgrounds."""
    random = torch.Generator().manual_seed(1)
    rgb, behind = (torch.rand(count, 3, generator=random, dtype=torch.float64) for _ in range(2))
    through = torch.rand(count, generator=random, dtype=torch.float64)
    return rgb, torch.randint(4, (count,), generator=random), through, behind


@pytest.mark.parametrize("model", WIDTHS)
def test_colours_are_those_of_the_operation_of_primitives(model: Any) -> None:
    made, (rgb, views, through, behind) = exposure_of(model), rays()
    own = (made.table - made.table.mean(0))[views]
    assert made.values().mean(0).abs().max() < 1e-15
    as_images = view_exposure(rgb[:, None, None], own)[:, 0, 0]
    torch.testing.assert_close(made.apply(rgb, views), as_images)
    as_images = view_exposure(rgb[:, None, None], own, through[:, None, None], behind)[:, 0, 0]
    torch.testing.assert_close(made.apply(rgb, views, through, behind), as_images)
    assert (made.apply(rgb, views, torch.ones_like(through), rgb) - rgb).abs().max() < 1e-15
    made.table = made.table + 0.7  # what all images share
    torch.testing.assert_close(made.apply(rgb, views), view_exposure(rgb[:, None, None], own)[:, 0, 0])


@pytest.mark.parametrize("model", WIDTHS)
def test_its_gradient_is_that_of_differences(model: Any) -> None:
    made, (rgb, views, through, behind) = exposure_of(model), rays()

    def shown(table: Tensor, rgb: Tensor, through: Tensor) -> Tensor:
        made.table = table
        return torch.cat([made.apply(rgb, views, through, behind).flatten(), made.penalty()[None]])

    inputs = tuple(t.requires_grad_() for t in (made.table, rgb, through))
    assert torch.autograd.gradcheck(shown, inputs)


@pytest.mark.parametrize(("model", "cut_out"), [("gain", False), ("affine", False), ("affine", True)])
def test_the_gradient_of_a_step(model: Any, cut_out: bool, monkeypatch: Any) -> None:
    """By the table, against the loss in double of the same colours, where some rows are no rays."""
    config = replace(
        CONFIG, extent="box" if cut_out else "cascades", growth=None, exposure=model, sparse=False
    )
    given = PosedImages(ring(3, 8)) if cut_out else PosedImages(walk(3, 8), points=points_of_place())
    adapted = RadianceField.adapt_config(replace(config, distortion=0.0), given)
    field = SmallField(adapted)
    field.begin(given, CPU)
    exposure = field.rays.exposure
    assert exposure is not None and field.config.full_scene != cut_out
    with torch.no_grad():
        exposure.table.copy_(
            0.2 * torch.randn(exposure.table.shape, generator=torch.Generator().manual_seed(2))
        )
    seen: list[Any] = []
    apply = Exposure.apply
    monkeypatch.setattr(Exposure, "apply", lambda *a: seen.append(a[1:]) or apply(*a))
    samples: list[Any] = []
    drawn_samples = field.samples
    monkeypatch.setattr(field, "samples", lambda batch: samples.append(drawn_samples(batch)) or samples[-1])
    batch = field.draw_batch(torch.Generator().manual_seed(4))
    assert (batch.pixels < 0).any()
    loss = field.loss(batch)
    actual = torch.autograd.grad(loss, exposure.table)[0]

    (rgb, views, *kept), counters = seen[0], samples[0].counters
    assert len(kept) == 2 * cut_out and counters[LEFT_OUT] == 0
    assert torch.equal(views, views_of(batch.pixels, field.rays.images.table))
    rows = batch.pixels >= 0
    table = exposure.table.detach().double().requires_grad_()
    own = (table - table.mean(0))[views[rows]]
    background = (kept[0][rows, None, None].double(), kept[1][rows].double()) if kept else ()
    shown = view_exposure(rgb.detach()[rows, None, None].double(), own, *background)[:, 0, 0]
    total = torch.nn.functional.huber_loss(
        shown, batch.targets[rows].double(), reduction="sum", delta=field.config.huber or HUBER
    )
    centred = table - table.mean(0)
    expected_loss = total / (3 * int(counters[RAYS])) + PENALTY / 2 * centred.square().sum() / len(table)
    expected = torch.autograd.grad(expected_loss, table)[0]
    assert expected.abs().max() > 1e-5
    torch.testing.assert_close(actual.double(), expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
    if not kept:
        blank = (rgb[~rows] == batch.targets[~rows]).all()
        assert blank, "rows without a ray have no loss"


def darkened(views: list[View], gains: np.ndarray) -> list[View]:
    """The views by other exposures, a factor per channel each."""

    def read(view: View, gain: np.ndarray) -> Pixels:
        return Pixels((view.read().rgb * gain).clip(0, 255).round().astype(np.uint8))

    return [
        View(v.name, v.camera, lambda v=v, gain=gain: read(v, gain))
        for v, gain in zip(views, gains, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", WIDTHS)
def test_it_finds_the_exposures_of_photographs(model: Any, device: torch.device) -> None:
    """And held-out views, of which nothing is learnt, are better after a fit of their own."""
    gains = np.exp(np.random.default_rng(1).uniform(-0.3, 0.1, (14, 3)))
    gains /= np.exp(np.log(gains).mean(0))
    data = PosedImages(
        darkened(walk(14), 0.85 * gains),
        darkened(walk(3, start=0.2), np.full((3, 3), 0.85)),
        points_of_place(),
    )
    fields = {}
    for exposure in ("none", model):
        config = RadianceField.adapt_config(
            replace(CONFIG, extent="cascades", distortion=0.01, steps=900, exposure=exposure), data
        )
        fields[exposure] = trained(config, data, 900, device)
    scores = {name: field.scores(aligned=True) for name, field in fields.items()}
    assert fields[model].evaluate().keys() == {"psnr", "ssim", "psnr_aligned"}
    assert fields["none"].evaluate().keys() == {"psnr", "ssim"}
    learnt = fields[model].rays.exposure.values().detach().cpu().numpy()
    true = np.log(gains)
    actual = learnt if model == "gain" else np.log1p(learnt[:, [0, 4, 8]] + learnt[:, 9:] / 0.4)
    assert np.corrcoef(actual.ravel(), true.ravel())[0, 1] > 0.8, (actual, true)
    assert (actual * true).sum() / np.square(true).sum() == pytest.approx(0.9, abs=0.2)  # of what was planted
    assert scores[model]["psnr_aligned"] > scores[model]["psnr"], scores


def test_checkpoints_hold_exposures_and_files_do_not(tmp_path: Path) -> None:
    data = PosedImages(walk(3, 8), points=points_of_place())
    config = RadianceField.adapt_config(replace(CONFIG, extent="cascades", exposure="gain", steps=40), data)
    assert isinstance(config, RadianceConfig)

    def begun() -> tuple[SmallField, FieldOptimizer]:
        field = SmallField(config)
        field.begin(data, CPU)
        return field, FieldOptimizer(field)

    def table(field: SmallField) -> Tensor:
        return field.auxiliary_parameters()["exposure"].detach()

    field, optimizer = begun()
    for step in range(2):
        optimizer.step(step)
    assert not table(field).any(), "nothing is learnt in the first twentieth"
    optimizer.step(2)
    moved = table(field).abs().max()
    assert 0 < moved <= 2 * AUXILIARY_RATE * config.rate, "a step of Adam"
    saved = {name: t.clone() for name, t in optimizer.tensors().items()}
    again, other = begun()
    assert other.restore(saved) and torch.equal(table(again), table(field))
    for each in (optimizer, other):
        for step in range(3, 6):
            each.step(step)
    assert torch.equal(table(again), table(field)) and table(field).abs().max() > moved
    save_field(tmp_path / "field.safetensors", field)
    with safe_open(tmp_path / "field.safetensors", "pt") as file:
        names = set(file.keys())
    drawn = SmallField(config)
    assert names == set(drawn.state_dict()) and not drawn.auxiliary_parameters()
    drawn.load_state_dict(field.state_dict())
    camera = data.views[0].camera
    torch.testing.assert_close(drawn.render(camera), field.render(camera))
    with pytest.raises(KeyError):
        other.restore({name: t for name, t in saved.items() if not name.startswith("auxiliary.")})


def test_other_models_are_refused() -> None:
    with pytest.raises(LuxelError, match="exposure must be auto, none, gain or affine"):
        replace(CONFIG, exposure="camera").check()  # pyright: ignore[reportArgumentType]
