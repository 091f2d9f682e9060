"""Stage: colours of rays from their samples, and the gradient (kernels of the same name)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.march_rays import COUNTERS
from luxel.render.ops.registry import define, register_implementation, require

MIN_TRANSMITTANCE = 1e-4

_INPUTS = (
    "Tensor density, Tensor colour, Tensor dt, Tensor t, Tensor ranges, Tensor counters, Tensor background"
)
define(f"composite({_INPUTS}, float scale, float min_transmittance) -> (Tensor, Tensor, Tensor)")
define(
    "composite_bwd(Tensor g_rgb, Tensor? g_transmittance, Tensor? g_depth, "
    f"{_INPUTS}, float scale, float min_transmittance, Tensor rgb, Tensor transmittance, Tensor depth)"
    " -> (Tensor, Tensor)"
)


class Composite(NamedTuple):
    """What rays see."""

    rgb: Tensor  # [R, 3], the background behind it
    transmittance: Tensor  # 1 - alpha, [R]
    depth: Tensor  # the mean of t by weight, not divided by alpha, [R]


def composite(
    density: Tensor,
    colour: Tensor,
    dt: Tensor,
    t: Tensor,
    ranges: Tensor,
    counters: Tensor,
    background: Tensor,
    *,
    scale: float = 1.0,
    min_transmittance: float = MIN_TRANSMITTANCE,
) -> Composite:
    """Emission and absorption along rays; nothing waits for the device.

    Mildenhall et al. 2020, "NeRF", equation 3, with optical depths scale exp(density) dt and colours sigmoid(colour).
    See `luxel.render.reference.field.composite.composite_reference`. Differentiable by density and colour.

    Args:
        density: of samples, before its activation; held to [-15, 15], beyond which it has no gradient, [S], float32 or
            (CPU only) float64.
        colour: likewise, [S, 3].
        dt, t: of samples, [S].
        ranges: first sample and number of them of each ray, int32 [R, 2], as `march_rays` gives them: they lie side by
            side and end at the first counter. Not checked.
        counters: of `march_rays`, int64 [5]; samples beyond the first number belong to no ray.
        background: behind each ray, [R, 3]; it has no gradient.
        scale: factor of the optical depths: 1 / (the length unit of the densities).
        min_transmittance: samples with a smaller transmittance in front have no weight.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    inputs = density, colour, dt, t, ranges, counters, background
    return Composite(*torch.ops.luxel.composite(*inputs, scale, min_transmittance))


def _check(
    density: Tensor,
    colour: Tensor,
    dt: Tensor,
    t: Tensor,
    ranges: Tensor,
    counters: Tensor,
    background: Tensor,
    scale: float,
    min_transmittance: float,
) -> dict[str, Any]:
    """The fields of the argument struct that both passes share."""
    if density.dim() != 1 or density.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"composite: density must be [S], float32 or float64, got {list(density.shape)} {density.dtype}"
        )
    samples, rays, dtype = density.shape[0], ranges.shape[0], density.dtype
    expected = {
        "density": (density, dtype, (samples,)),
        "colour": (colour, dtype, (samples, 3)),
        "dt": (dt, dtype, (samples,)),
        "t": (t, dtype, (samples,)),
        "ranges": (ranges, torch.int32, (rays, 2)),
        "counters": (counters, torch.int64, (COUNTERS,)),
        "background": (background, dtype, (rays, 3)),
    }
    require("composite", density.device, expected)
    arguments: dict[str, Any] = {name: tensor.contiguous() for name, (tensor, *_) in expected.items()}
    sizes = {"count": rays, "samples": samples}
    return arguments | sizes | {"scale": scale, "min_transmittance": min_transmittance}


def _forward(density: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    arguments = _check(density, *rest)
    rgb, transmittance, depth = outputs = _fake_forward(density, *rest)
    library_for(density.device).call(
        "composite_fwd",
        density.device,
        density.dtype,
        **arguments,
        rgb=rgb,
        transmittance=transmittance,
        depth=depth,
    )
    return outputs


def _backward(
    g_rgb: Tensor, g_transmittance: Tensor | None, g_depth: Tensor | None, density: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    *inputs, rgb, transmittance, depth = rest
    arguments = _check(density, *inputs)
    rays, dtype = rgb.shape[0], density.dtype
    expected = {
        "rgb": (rgb, dtype, (rays, 3)),
        "transmittance": (transmittance, dtype, (rays,)),
        "depth": (depth, dtype, (rays,)),
        "g_rgb": (g_rgb, dtype, (rays, 3)),
        "g_transmittance": (g_transmittance, dtype, (rays,)),
        "g_depth": (g_depth, dtype, (rays,)),
    }
    require("composite_bwd", density.device, expected)
    arguments |= {
        name: None if tensor is None else tensor.contiguous() for name, (tensor, *_) in expected.items()
    }
    g_density, g_colour = grads = _fake_backward(g_rgb, None, None, density, *rest)
    library_for(density.device).call(
        "composite_bwd", density.device, dtype, **arguments, g_density=g_density, g_colour=g_colour
    )
    return grads


def _fake_forward(density: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    rays = rest[3].shape[0]
    return density.new_empty(rays, 3), density.new_empty(rays), density.new_empty(rays)


def _fake_backward(
    g_rgb: Tensor, g_transmittance: Tensor | None, g_depth: Tensor | None, density: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    return density.new_empty(density.shape), density.new_empty(rest[0].shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.min_transmittance = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, g_rgb: Tensor | None, g_transmittance: Tensor | None, g_depth: Tensor | None
) -> tuple[Tensor | None, ...]:
    none = (None,) * 7
    if g_rgb is None and g_transmittance is None and g_depth is None:
        return None, None, *none
    *inputs, rgb, transmittance, depth = ctx.saved_tensors
    g_rgb = torch.zeros_like(rgb) if g_rgb is None else g_rgb
    all_grads = torch.ops.luxel.composite_bwd(
        g_rgb,
        g_transmittance,
        g_depth,
        *inputs,
        ctx.scale,
        ctx.min_transmittance,
        rgb,
        transmittance,
        depth,
    )
    grads = [grad if needed else None for grad, needed in zip(all_grads, ctx.needs_input_grad, strict=False)]
    return *grads, *none


register_implementation("composite", _forward, _fake_forward, _differentiate, _save)
register_implementation("composite_bwd", _backward, _fake_backward)
