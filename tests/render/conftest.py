"""How every test of the rasterizer compares the shipped path with its witness."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from toy_run import same_state, toy, toy_cutout

from luxel.render.geometry.camera import Camera
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.raster.rasterize import rasterize
from luxel.render.reference.raster.rasterize import rasterize_reference

__all__ = ["same_state", "toy", "toy_cutout"]  # fixtures of every test that trains

D = torch.float64
OUTPUTS = ("rgb", "alpha", "depth", "median_depth", "normals", "features")
# The C ABI holds these two as float32: a double comparison needs values that both sides read alike.
EXACT = {"dilation": 0.3125, "max_alpha": 0.984375}


def assert_agrees(
    gaussians: Gaussians,
    camera: Camera,
    *,
    background: torch.Tensor | None = None,
    features: torch.Tensor | None = None,
    jumps: float = 0.03,
    **options: Any,
) -> None:
    """Fails unless `rasterize` gives the images and gradients of the float64 reference.

    Images to 1e-5 (float32) or 1e-12 (float64), gradients of a random weighting of all outputs to 1e-4 or 1e-10 of
    the norm of each parameter's gradient. Pixels where a yes-or-no decision (alpha cut-off, end of a pixel, median) is
    closer than rounding are left out of both: there is no right answer there.

    Args:
        jumps: largest share of the pixels that may be left out.
    """
    single = gaussians.means.dtype == torch.float32
    margin, forward, backward = (2e-4, 1e-5, 1e-4) if single else (1e-9, 1e-12, 1e-10)
    options = {**EXACT, **options}

    def leaves(dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
        actual = {**gaussians.tensors(), "world_to_cam": camera.world_to_cam}
        if camera.shutter is not None:
            actual["shutter"] = camera.shutter
        if background is not None:
            actual["background"] = background
        if features is not None:
            actual["features"] = features
        return {k: t.detach().to(device, dtype, copy=True).requires_grad_() for k, t in actual.items()}

    def render(function: Callable[..., Any], given: dict[str, torch.Tensor]) -> Any:
        return function(
            Gaussians(**{name: given[name] for name in Gaussians.names}),
            replace(
                camera.to(given["means"].dtype).to(given["means"].device),
                world_to_cam=given["world_to_cam"],
                shutter=given.get("shutter"),
            ),
            background=given.get("background"),
            features=given.get("features"),
            **options,
        )

    native_in = leaves(gaussians.means.dtype, gaussians.device)
    witness_in = leaves(D, torch.device("cpu"))
    native = render(functools.partial(rasterize, count=True), native_in)
    witness = render(rasterize_reference, witness_in)

    keep = witness.margin > margin
    assert (~keep).double().mean() <= jumps, f"{(~keep).double().mean():.3f} of the pixels sit on a jump"
    torch.testing.assert_close(
        native.count.cpu()[keep], witness.count[keep], rtol=0, atol=0, msg=_named("count")
    )
    generator = torch.Generator().manual_seed(7)
    losses = torch.zeros((), dtype=D), torch.zeros((), dtype=D)
    for name in OUTPUTS:
        actual, expected = getattr(native, name), getattr(witness, name)
        assert (actual is None) == (expected is None), f"{name}: {actual} against {expected}"
        if expected is None:
            continue
        assert actual.shape == expected.shape, f"{name}: {list(actual.shape)} against {list(expected.shape)}"
        assert actual.dtype == gaussians.means.dtype and actual.device.type == gaussians.device.type
        scale = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(
            actual.detach().cpu().to(D)[keep], expected[keep], rtol=0, atol=forward * scale, msg=_named(name)
        )
        if name == "median_depth":
            assert not actual.requires_grad
            continue
        weight = torch.randn(expected.shape, generator=generator, dtype=D)
        weight = weight * keep.reshape(*keep.shape, *[1] * (expected.dim() - keep.dim()))
        losses = (
            losses[0] + (actual * weight.to(actual)).sum().cpu().to(D),
            losses[1] + (expected * weight).sum(),
        )

    losses[0].backward()
    if losses[1].requires_grad:  # nothing in sight: nothing to differentiate
        losses[1].backward()
    for name, leaf in witness_in.items():
        actual, expected = native_in[name].grad, leaf.grad
        expected = torch.zeros_like(leaf) if expected is None else expected
        assert actual is not None and actual.shape == leaf.shape, f"no gradient of {name}"
        difference, norm = (actual.cpu().to(D) - expected).norm().item(), expected.norm().item()
        assert difference <= backward * norm + 1e-30, (
            f"gradient of {name}: {difference:.3g} off in {norm:.3g}"
        )


def _named(name: str) -> Callable[[str], str]:
    return lambda text: f"{name}: {text}"


@pytest.fixture(scope="session")
def agrees() -> Callable[..., None]:
    """`assert_agrees`."""
    return assert_agrees


@pytest.fixture(params=["float32", "float64"])
def precision(request: pytest.FixtureRequest, device: torch.device) -> dict[str, Any]:
    """dtype= and device= of each backend; the GPU has float32 only."""
    if device.type == "cuda" and request.param == "float64":
        pytest.skip("the CUDA kernels are float32 (the same maths runs in double on the CPU)")
    return {"dtype": getattr(torch, request.param), "device": device}
