"""Terms of the loss: which are active, their weights on the device, and how their gradients are added."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from moving import Moving, assert_waits_for_nothing
from test_step import assert_same_step, general, in_the_middle
from torch import Tensor

from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.terms import LossContext, StepImages, StepScene, StepTerm
from luxel.render.primitives.training import Loss
from luxel.render.train.densify.fixed import FixedCount
from luxel.render.train.step.terms import registry
from luxel.render.train.step.terms.active import TermWeights
from luxel.render.train.step.terms.image_gradients import ImageGradients


def at(progress: float) -> LossContext:
    return LossContext(Loss(), (0.0, 0.0), False, progress)


def nothing(images: StepImages) -> None:
    return None


def dark(images: StepImages) -> Tensor:
    """The mean colour, and how far what is covered lies away."""
    return images.rgb.mean() + (images.depth * images.alpha.detach()).mean()


def bright(scene: StepScene) -> Tensor:
    """The mean of the colours of the primitives that a view sees, with a sign."""
    seen = scene.visible()[:, None] * scene.primitives.sh_dc
    return -seen.sum() * scene.inverse_count[0]


RISING = (  # weights change in every step
    StepTerm("dark", dark, lambda context: 0.1 + context.progress, frozenset({"rgb", "depth"})),
    StepTerm("bright", bright, lambda context: 0.2 + 10 * context.progress, on="rows"),
    StepTerm("nothing", nothing, lambda context: 1.0),
)


@pytest.fixture
def rising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the terms of `RISING` to every run."""
    monkeypatch.setitem(sys.modules, "rising", SimpleNamespace(step_terms=lambda config: RISING))  # type: ignore[arg-type]
    monkeypatch.setattr(registry, "TERMS", (*registry.TERMS, "rising"))


def test_terms_without_weight_are_absent() -> None:
    terms = (
        StepTerm(
            "late", nothing, lambda context: 0.5 if context.progress >= 0.5 else 0.0, frozenset({"normals"})
        ),
        StepTerm("early", nothing, lambda context: 3.0 * (1 - context.progress), frozenset({"depth"})),
        StepTerm("rows", nothing, lambda context: -1.0, on="rows"),
        StepTerm("kernel", nothing, lambda context: 2.0, on="rows", kernel="some", fixed=True),
        StepTerm("column", nothing, lambda context: 0.7, column=24),
    )
    weights = TermWeights(terms, torch.device("cpu"), 3)
    first = weights.at(at(0.0))
    assert [each.term.name for each in first.of_images] == ["early", "column"]
    assert [each.term.name for each in first.of_rows] == ["kernel"]
    assert first.with_depth and not first.with_normals
    assert weights.at(at(0.0)) is first, "nothing is sent again"
    early = first.of_images[0]
    assert (early.on_device.item(), early.of_view.item()) == (3.0, 1.0)
    row = torch.arange(28.0)
    assert early.weight(row) == (3.0, early.on_device)
    assert first.of_images[1].weight(row).on_device.item() == 24, "from the table"
    middle = weights.at(at(0.25))
    assert middle.key == first.key, "a captured step does for all weights"
    assert early.on_device.item() == 2.25, "in place"
    last = weights.at(at(1.0))
    assert [each.term.name for each in last.of_images] == ["late", "column"]
    assert last.with_depth and last.with_normals and last.key != first.key


def test_names_are_unique_and_weights_of_kernels_are_in_the_key() -> None:
    for name in PRIMITIVES:
        config = Moving(0.0).config(name)
        terms = registry.step_terms(config)
        assert len({term.name for term in terms}) == len(terms), name
        weights = TermWeights(terms, torch.device("cpu"), 1)
        keys = {weights.at(LossContext(config.loss, (share, 0.0), False)).key for share in (0.0, 0.1, 0.2)}
        assert len(keys) == 3, name


def test_the_first_gradient_is_adopted() -> None:
    rgb, slope, more = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3), torch.full((1, 2, 3, 4), 2.0)
    sums = ImageGradients(4, rgb, None)
    assert not sums.image[..., 3:].any(), "channels without a gradient"
    sums.add("transmittance", slope)
    assert sums.transmittance is slope
    sums.add("transmittance", slope)
    assert sums.transmittance is not None and (sums.transmittance == 2).all() and (slope == 1).all()
    sums.add("depth", slope)
    sums.add("more", more)
    assert sums.image[0, 0, 0].tolist() == [1, 1, 1, 3, 2, 2, 2]
    sums.add("rgb", rgb)
    assert sums.image[0, 0, 0].tolist() == [2, 2, 2, 3, 2, 2, 2]
    assert ImageGradients(0, rgb, None).image is rgb


@pytest.mark.usefixtures("rising")
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", list(PRIMITIVES))
def test_the_fused_step_is_the_step_of_autograd(
    tmp_path: Path, device: torch.device, name: str, batch: int
) -> None:
    capture = Moving(1.0)
    config = capture.config(
        name, steps=50, strategy=FixedCount(), batch=batch, sh_every=0, deterministic=True
    )
    fused = capture.trainer(tmp_path / "a", config, device=device)
    plain = general(capture.trainer(tmp_path / "b", config, device=device))
    in_the_middle(fused)
    for _ in range(3):
        assert_same_step(fused, plain)


@pytest.mark.gpu
@pytest.mark.usefixtures("rising")
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "autograd"])
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_weights_change_without_another_capture(tmp_path: Path, device: torch.device, fused: bool) -> None:
    """Replayed steps have the weights of their own step: the bits of those that are called."""
    capture = Moving(0.0)
    settings = {"strategy": FixedCount(), "sh_every": 0, "sh_rest_every": 1, "reorder_every": 0}
    config = capture.config("gaussians", steps=60, deterministic=True, **settings)
    replayed, single = (capture.trainer(tmp_path / part, config, device=device) for part in "ab")
    single.queue._replay.run = lambda epoch, key, work: work()
    for trainer in (replayed, single):
        trainer.queue._fused = fused
        for _ in range(20):
            trainer.step()
    captures = replayed.queue.captures
    assert captures >= 1
    for trainer in (replayed, single):
        for _ in range(20):
            trainer.step()
        trainer.synchronize()
    assert replayed.queue.captures == captures
    for key, tensor in replayed.store.tensors().items():
        assert torch.equal(tensor, single.store.tensors()[key]), key
    if fused:
        assert_waits_for_nothing(replayed)
