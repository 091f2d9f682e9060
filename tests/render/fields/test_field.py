"""Encoding and network together: a field learns, takes positions of any shape, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from luxel.render.fields.encodings.grid import Grid
from luxel.render.fields.encodings.grid_encoding import GridEncoding
from luxel.render.fields.nets.field import Field
from luxel.render.fields.nets.mlp import Mlp
from luxel.render.ops.train.adam import fused_adam_

SMALL = Grid(2, levels=6, features=2, base=4, growth=1.7, log2_entries=11, hashed=True)


def small(outputs: int, *, seed: int = 0, **options: Any) -> Field:
    """A field on the small grid."""
    where = {name: options[name] for name in options if name == "device"}
    return Field(GridEncoding(SMALL, seed=seed, **where), Mlp(SMALL.width, outputs, seed=seed, **options))


def pixels(side: int, device: torch.device) -> Tensor:
    """Centres of the pixels of a square image, [side^2, 2]."""
    along = (torch.arange(side, device=device) + 0.5) / side
    return torch.stack(torch.meshgrid(along, along, indexing="xy"), -1).reshape(-1, 2)


def target_image(x: Tensor) -> Tensor:
    """Discs and waves, [N, 3], in [0, 1]."""
    rings = (40 * (x - 0.4).norm(dim=-1)).sin()
    disc = ((x - torch.tensor([0.7, 0.6]).to(x)).norm(dim=-1) < 0.2).to(x)
    return 0.5 + 0.45 * torch.stack([rings, 2 * disc - 1, (25 * x[:, 0] + 9 * x[:, 1] ** 2).cos()], -1)


def trained(device: torch.device, steps: int) -> tuple[Field, float]:
    """A field after some steps on an image, and its PSNR."""
    field = small(3, width=32, output_activation="sigmoid", device=device)
    params = list(field.parameters())
    first, second = ([torch.zeros_like(p) for p in params] for _ in range(2))
    x = pixels(48, device)
    target = target_image(x)
    for step in range(steps):
        loss = (field(x) - target).square().mean()
        grads = torch.autograd.grad(1024 * loss, params)  # half has few small numbers
        data, grads = [p.detach() for p in params], [g / 1024 for g in grads]
        fused_adam_(data, grads, first, second, [1e-2, 5e-3], step + 1, (0.9, 0.99), 1e-15, None)
    with torch.no_grad():
        return field, -10 * math.log10((field(x) - target).square().mean().item())


def test_a_field_learns_a_picture(device):
    field, psnr = trained(device, 300)
    assert psnr > 30
    again = small(3, width=32, output_activation="sigmoid", seed=1, device=device)
    again.load_state_dict(field.state_dict())
    x = torch.rand(5, 7, 2, generator=torch.Generator().manual_seed(0)).to(device)
    assert again(x).shape == (5, 7, 3)
    assert torch.equal(again(x), field(x))


@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2), (4, 1, 2)])
def test_any_number_of_positions(device, shape):
    field = small(1, width=16, hidden_layers=0, device=device)
    assert field(torch.zeros(shape, device=device)).shape == (*shape[:-1], 1)


def test_what_is_refused():
    with pytest.raises(ValueError, match="x must be"):
        small(1)(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="width"):
        small(1, width=20)
    with pytest.raises(ValueError, match="gives 12 numbers, the network takes 13"):
        Field(GridEncoding(SMALL), Mlp(13, 1))
