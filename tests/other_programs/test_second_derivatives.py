"""What autograd can ask of luxel beside first derivatives in reverse mode: an error, never a zero."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import luxel.render
from luxel.render.fields.encodings.grid import Grid
from luxel.render.geometry.camera import Camera
from luxel.render.ops.first_order import FirstOrderError, has_saved_tensor_hooks
from luxel.render.primitives import PRIMITIVES
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.synthetic.toy import torus_knot

Sample = tuple[Callable[..., Tensor], list[Tensor]]  # a function, and the tensors by which it has gradients
D = torch.float64
TWICE = {"encode_grid", "mlp"}  # their second derivatives are proved in tests/render/ops/field
GRID = Grid(3, 2, 2, 4, 1.5, 6, hashed=True)
LEVELS = (list(GRID.offsets), list(GRID.scales), 1)
NETWORK = (3, 16, 1, 2, 1, 0)  # inputs, width, hidden layers, outputs, ReLU and none


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def rendered(primitive: str) -> Sample:
    """All colours of an image of a primitive, by all of its parameters."""
    scene = PRIMITIVES[primitive].engine.from_gaussians(torus_knot(12)).to(D)
    camera = Camera.look_at((0.0, -4.0, 0.5), (0.0, 0.0, 0.0), width=24, height=18).to(D)
    tensors, time = scene.tensors(), 0.5 if scene.moves else None
    names = [name for name, tensor in tensors.items() if tensor.numel()]

    def draw(*parameters: Tensor) -> Tensor:
        return rasterize(
            type(scene)(**{**tensors, **dict(zip(names, parameters, strict=True))}), camera, time=time
        ).rgb

    return draw, [tensors[name] for name in names]


def blended() -> Sample:
    """An image by its background, which only the stage of blending knows."""
    scene = torus_knot(12).to(D)
    camera = Camera.look_at((0.0, -4.0, 0.5), (0.0, 0.0, 0.0), width=24, height=18).to(D)
    return lambda colour: rasterize(scene, camera, background=colour).rgb, [random(3)]


def composited() -> Sample:
    ranges, counters = torch.tensor([[0, 4], [4, 5]]).int(), torch.tensor([9, 9, 2, 0, 0])
    rest = (0.05 * random(9), 1 + random(9, seed=1), ranges, counters, random(2, 3))
    samples = [1 + random(9, seed=2), random(9, 3, seed=3)]
    return lambda *given: torch.ops.luxel.composite(*given, *rest, 1.0, 1e-4, 0.01, 0.0, 0.0)[0], samples


def consistent() -> Sample:
    neighbours = (torch.arange(6)[:, None] + torch.arange(1, 3)).int() % 6
    rest = neighbours, torch.ones(6, dtype=torch.bool)
    given = [random(6, 8) - 0.5, random(6, 3, seed=1), random(6, 1, seed=2)[:, 0]]
    return lambda *leaves: torch.ops.luxel.velocity_consistency(*leaves, *rest)[0], given


def encoded_network() -> Sample:
    x, table, weights = random(5, 3), random(GRID.entries, GRID.features, seed=1), random(WEIGHTS, seed=2)
    network = (16, 1, 2, 1, 0)
    return lambda t, w: torch.ops.luxel.field(x, None, t, None, w, *LEVELS, *network, True)[0], [
        table,
        weights,
    ]


def grid_gradient() -> Sample:
    x, table, g_out = random(5, 3), random(GRID.entries, GRID.features, seed=1), random(5, GRID.width, seed=2)
    return (
        lambda g, p, t: torch.ops.luxel.encode_grid_bwd(g, p, t, None, *LEVELS, True, True)[0],
        [g_out, x, table],
    )


def network_gradient() -> Sample:
    x, weights, g_out = random(5, 3), random(WEIGHTS_OF_3, seed=1), random(5, 2, seed=2)
    out, hidden = torch.ops.luxel.mlp(x, weights, *NETWORK, True, True)
    return (
        lambda g, p, w: torch.ops.luxel.mlp_bwd(g, p, w, out, hidden, *NETWORK, True, True, True)[0],
        [g_out, x, weights],
    )


WEIGHTS_OF_3, WEIGHTS = 16 * 3 + 16 * 2, 16 * GRID.width + 16 * 2
EXACT, VISIBLE = torch.ones(1, dtype=D), torch.ones(5, dtype=torch.bool)
# Every operation of luxel that has a gradient: how it is called.
SAMPLES: dict[str, Callable[[], Sample]] = {
    **{f"project_{name}": lambda name=name: rendered(name) for name in PRIMITIVES},
    "blend": blended,
    "composite": composited,
    "velocity_consistency": consistent,
    "field": encoded_network,
    "encode_grid_bwd": grid_gradient,
    "mlp_bwd": network_gradient,
    "colour_inputs": lambda: (lambda f: torch.ops.luxel.colour_inputs(f, random(5, 3))[0], [random(5, 8)]),
    "depth_loss": lambda: (
        lambda d, t: torch.ops.luxel.depth_loss(d, t, 2 + random(1, 4, 5), None, EXACT, False)[0],
        [random(1, 4, 5, seed=1), random(1, 4, 5, seed=2)],
    ),
    "opacity_entropy": lambda: (lambda o: torch.ops.luxel.opacity_entropy(o, VISIBLE, 0.1)[0], [random(5)]),
    "photometric_loss": lambda: (
        lambda rgb: torch.ops.luxel.photometric_loss(rgb, random(13, 14, 3), None, 0.2, False, True)[0],
        [random(13, 14, 3, seed=1)],
    ),
    "view_exposure": lambda: (
        lambda image, gains: torch.ops.luxel.view_exposure(image, gains, None, None),
        [random(1, 4, 5, 3), random(1, 12, seed=1)],
    ),
    "view_pose": lambda: (
        lambda parameters: torch.ops.luxel.view_pose(torch.eye(4, dtype=D)[None], parameters, 1.0),
        [random(1, 6)],
    ),
}


def functions(base: type = torch.autograd.Function) -> Iterator[type]:
    """Every autograd function that luxel defines."""
    for each in base.__subclasses__():
        if each.__module__.startswith("luxel."):
            yield each
        yield from functions(each)


def test_every_operation_with_a_gradient_has_a_sample() -> None:
    for module in pkgutil.walk_packages(luxel.render.__path__, "luxel.render."):
        importlib.import_module(module.name)
    names = {each.__name__.removeprefix("GradientOf_") for each in functions()}
    of_others = {"_LastGradient", "_ScaledGradient", "_Returning"}  # parts of operations, and of a reference
    assert names - of_others == set(SAMPLES) | TWICE


def loss_of(function: Callable[..., Tensor], leaves: list[Tensor], power: int) -> Tensor:
    out = function(*leaves)
    return (out * random(*out.shape, seed=7)).pow(power).sum()


@pytest.mark.parametrize("power", [1, 2], ids=["a linear loss", "a square"])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_second_derivatives_are_refused(name: str, power: int) -> None:
    """Of all inputs together and of each alone; the first derivatives are those without create_graph."""
    function, tensors = SAMPLES[name]()
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    plain = torch.autograd.grad(loss_of(function, leaves, power), leaves)
    firsts = torch.autograd.grad(loss_of(function, leaves, power), leaves, create_graph=True)
    assert all(torch.equal(a, b.detach()) for a, b in zip(plain, firsts, strict=True))
    if name == "colour_inputs" and power == 1:  # its gradient is a constant
        return
    for first in firsts:
        for leaf in (leaves, *([leaf] for leaf in leaves)):
            with pytest.raises(
                FirstOrderError, match=f"luxel::.*{name.split('_')[0]}.*no second derivatives"
            ):
                torch.autograd.grad(first.sum(), leaf, retain_graph=True, allow_unused=True)


def test_a_term_beside_the_image_does_not_hide_it() -> None:
    """The second derivative of loss + |m|^3 was that of |m|^3 alone."""
    draw, tensors = rendered("gaussians")
    means = tensors[0].clone().requires_grad_()
    (first,) = torch.autograd.grad(
        draw(means, *tensors[1:]).sum() + (means**3).sum(), means, create_graph=True
    )
    with pytest.raises(FirstOrderError, match="Detach the gradient, or take finite differences"):
        (first**2).sum().backward()
    other = tensors[0].clone().requires_grad_()
    with pytest.raises(FirstOrderError):
        torch.autograd.functional.hessian(lambda m: (draw(m, *tensors[1:]) ** 2).sum(), other)


def test_scaled_gradients_are_not_differentiated() -> None:
    from luxel.render.raster.pipeline import _ScaledGradient

    values, scale = random(4, 3).requires_grad_(), random(4, 1, seed=1)
    (first,) = torch.autograd.grad(
        (_ScaledGradient.apply(values, scale) ** 3).sum(), values, create_graph=True
    )
    torch.testing.assert_close(first.detach(), (3 * values**2 * scale).detach(), rtol=1e-12, atol=0)
    with pytest.raises(FirstOrderError, match="scaled gradients"):
        first.sum().backward()


@pytest.mark.parametrize("name", [*SAMPLES, "encode_grid", "mlp"])
def test_forward_mode_is_refused(name: str) -> None:
    samples = SAMPLES | {
        "encode_grid": lambda: (
            lambda x, t: torch.ops.luxel.encode_grid(x, t, None, *LEVELS),
            [random(5, 3), random(GRID.entries, GRID.features, seed=1)],
        ),
        "mlp": lambda: (
            lambda x, w: torch.ops.luxel.mlp(x, w, *NETWORK, True, True)[0],
            [random(5, 3), random(WEIGHTS_OF_3, seed=1)],
        ),
    }
    function, tensors = samples[name]()
    with pytest.raises(FirstOrderError, match=r"no derivatives in forward mode.*Use reverse mode"):
        torch.func.jvp(function, tuple(tensors), tuple(torch.ones_like(t) for t in tensors))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(tensors[0], torch.ones_like(tensors[0])), *tensors[1:]]
        with pytest.raises(FirstOrderError, match="luxel::"):
            function(*duals)
        assert function(*tensors).isfinite().all(), "without a tangent nothing is refused"


def test_second_derivatives_of_encodings_and_networks_are_right() -> None:
    """They have them: by finite differences of the first."""
    x, table = random(5, 3).requires_grad_(), random(GRID.entries, GRID.features, seed=1).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda *g: torch.ops.luxel.encode_grid(*g, None, *LEVELS), (x, table))
    softplus = (*NETWORK[:4], 2, 0)
    given = x, random(WEIGHTS_OF_3, seed=2).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda *g: torch.ops.luxel.mlp(*g, *softplus, True, True)[0], given)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", [*SAMPLES])
def test_checkpointed_gradients_are_those_without(name: str, reentrant: bool) -> None:
    """torch.utils.checkpoint computes the forward pass again, and lets saved tensors be read only once."""
    function, tensors = SAMPLES[name]()
    results: list[Any] = []
    for recomputed in (False, True):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        out = checkpoint(function, *leaves, use_reentrant=reentrant) if recomputed else function(*leaves)
        (out * random(*out.shape, seed=7)).pow(2).sum().backward()
        results.append([leaf.grad for leaf in leaves])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_hooks_on_saved_tensors_are_noticed() -> None:
    assert not has_saved_tensor_hooks()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        assert has_saved_tensor_hooks()
    assert not has_saved_tensor_hooks()
