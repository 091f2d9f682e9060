"""Neighbours that are kept from step to step: when they are searched for, and that nothing else can tell."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from luxel.render.errors import LuxelError
from luxel.render.ops.train.neighbours import neighbours
from luxel.render.primitives import PRIMITIVES
from luxel.render.primitives.gaussians4d import Gaussians4d, Gaussians4dLoss
from luxel.render.primitives.gaussians4d.neighbourhood import Neighbourhood
from luxel.render.train.presets import preset
from luxel.render.train.store import resident
from luxel.render.train.store.resident import ResidentStore


def cloud(n: int, seed: int = 0) -> Gaussians4d:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"means": (3,), "times": (), "log_scales": (3,), "log_scale_t": (), "rotors": (8,)}
    shapes |= {"opacity_logits": (), "sh_dc": (3,), "sh_rest": (0, 3)}
    return Gaussians4d(
        **{name: torch.randn(n, *shape, generator=generator) for name, shape in shapes.items()}
    )


def nearest(scene: Gaussians4d, settings: Gaussians4dLoss) -> torch.Tensor:
    places = torch.cat([scene.means, settings.neighbour_time * scene.times[:, None]], -1)
    return neighbours(places, settings.neighbours)


def running() -> torch.Tensor:
    return torch.zeros(4, dtype=torch.int32)


def test_they_are_searched_for_every_so_often_and_after_changes():
    kept, state = Neighbourhood(Gaussians4dLoss(neighbours_every=10)), ResidentStore(cloud(50))

    def due(steps: range) -> list[int]:
        return [step for step in steps if kept.plan(step, state)]

    assert due(range(3, 25)) == [3, 10, 20]
    state.select(torch.arange(50).flip(0))
    assert due(range(25, 32)) == [25, 30]
    state.append(cloud(5, 1))
    assert due(range(32, 34)) == [32]
    state.extend(3)
    assert due(range(34, 36)) == [34]


def test_a_step_that_is_asked_for_again_searches_again():
    kept, state = Neighbourhood(Gaussians4dLoss(neighbours_every=10)), ResidentStore(cloud(50))
    assert [kept.plan(step, state) for step in (7, 7, 8, 8)] == [True, True, False, False]


def test_who_they_are(monkeypatch: Any):
    """All that are there; spare rows are nobody's neighbours."""
    settings = Gaussians4dLoss(neighbours=4, neighbour_time=2.0)
    monkeypatch.setattr(resident, "_rows_for", lambda count, device: count + 14)
    kept, state = Neighbourhood(settings), ResidentStore(cloud(50))
    assert kept.plan(0, state)
    rows = state.begin()[0]
    for name, tensor in rows.items():
        if name != "opacity_logits":
            tensor[50:] = math.nan
    kept.renew(state.primitives(rows), running())
    assert torch.equal(kept.tensors(state)["neighbours"], nearest(state.scene, settings))


def test_a_stalled_step_leaves_them():
    settings = Gaussians4dLoss()
    kept, state = Neighbourhood(settings), ResidentStore(cloud(50))
    kept.plan(0, state)
    kept.renew(state.scene, running())
    before = kept.tensors(state)["neighbours"].clone()
    state.scene.means.mul_(torch.tensor([-3.0, 0.1, 1.0]))
    stalled = running()
    stalled[1] = 1
    kept.renew(state.scene, stalled)
    assert torch.equal(kept.tensors(state)["neighbours"], before)
    kept.renew(state.scene, running())
    assert torch.equal(kept.tensors(state)["neighbours"], nearest(state.scene, settings))
    assert not torch.equal(kept.tensors(state)["neighbours"], before)


def test_what_a_checkpoint_holds():
    kept, state = Neighbourhood(Gaussians4dLoss(neighbours_every=10)), ResidentStore(cloud(50))
    assert kept.tensors(state) == {}
    kept.plan(3, state)
    kept.renew(state.scene, running())
    held = {name: tensor.clone() for name, tensor in kept.tensors(state).items()}
    again = Neighbourhood(Gaussians4dLoss(neighbours_every=10))
    again.restore(held, state)
    assert not again.plan(4, state) and again.plan(10, state)
    assert torch.equal(again.tensors(state)["neighbours"], held["neighbours"])
    for settings, tensors in ((Gaussians4dLoss(neighbours=3), held), (Gaussians4dLoss(), {})):
        other = Neighbourhood(settings)
        other.restore(tensors, state)
        assert other.plan(4, state), "what does not fit is searched for anew"
    state.select(torch.arange(50).flip(0))
    assert kept.tensors(state) == {}, "rows have changed places"


def test_others_keep_nothing():
    assert PRIMITIVES["gaussians"].engine.auxiliary(preset("default", "gaussians").loss) is None
    assert PRIMITIVES["convexes"].engine.auxiliary(preset("default", "convexes").loss) is None
    config = preset("default", "gaussians4d")
    assert PRIMITIVES["gaussians4d"].engine.auxiliary(config.loss) is not None
    config.loss = replace(config.loss, consistency_weight=0.0)
    assert PRIMITIVES["gaussians4d"].engine.auxiliary(config.loss) is None


def test_never_is_not_often_enough():
    config = preset("default", "gaussians4d")
    config.loss.neighbours_every = 0
    with pytest.raises(LuxelError, match=r"loss\.neighbours_every 0: .* from 1 to"):
        config.check()
