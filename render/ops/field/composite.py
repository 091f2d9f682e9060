"""Stage: colours of rays from their samples, and the gradient (kernels of the same name)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import COUNTERS
from luxel.render.ops.registry import define, register_implementation, require

_INPUTS = (
    "Tensor density, Tensor colour, Tensor dt, Tensor t, Tensor ranges, Tensor counters, Tensor background"
)
_SCALARS = "float scale, float min_transmittance, float step, float growth, float unit"
define(f"composite({_INPUTS}, {_SCALARS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
define(
    "composite_bwd(Tensor g_rgb, Tensor? g_transmittance, Tensor? g_depth, Tensor? g_distortion, "
    f"{_INPUTS}, {_SCALARS}, Tensor rgb, Tensor transmittance, Tensor depth, Tensor distortion, Tensor moments)"
    " -> (Tensor, Tensor)"
)


class Composite(NamedTuple):
    """What rays see."""

    rgb: Tensor  # [R, 3], the background behind it
    transmittance: Tensor  # 1 - alpha, [R]
    depth: Tensor  # the mean of t by weight, not divided by alpha, [R]
    distortion: Tensor  # how far the weights are apart, [R]; without a unit [0]


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
    step: float = 0.0,
    growth: float = 0.0,
    unit: float = 0.0,
) -> Composite:
    """Emission and absorption along rays; nothing waits for the device.

    Mildenhall et al. 2020, "NeRF", equation 3, with optical depths scale exp(density) dt and colours sigmoid(colour).
    The distortion is the sum of w_i w_j |s_i - s_j| over all pairs and of w_i^2 / (3 unit) over all samples
    (Barron et al.
    2022, "Mip-NeRF 360", equation 15), in linear time by running sums along the ray; samples of a ray are in
    order of t. See `luxel.render.reference.field.composite.composite_reference`. Differentiable by density
    and colour.

    In the gradient by ``colour`` the derivative of the sigmoid is at least 1 / 1024 where a step against the gradient
    brings the colour nearer to 1/2: a saturated colour can come back, in half precision too.

    Args:
        density: of samples, before its activation; clamped to [-15, 15], beyond which it has no gradient, [S], float32
            or (CPU only) float64.
        colour: likewise, [S, 3].
        dt, t: of samples, [S].
        ranges: first sample and number of them of each ray, int32 [R, 2], as `march_rays` gives them: they lie side by
            side and end at the first counter. Not checked.
        counters: of `march_rays`, int64 [5]; samples beyond the first number belong to no ray.
        background: behind each ray, [R, 3]; it has no gradient.
        scale: factor of the optical depths: 1 / (the length unit of the densities).
        min_transmittance: samples with a smaller transmittance in front have no weight.
        step, growth: of the region, for the distortion, whose s counts steps from 0 to t.
        unit: steps of a unit of s; 0: the distortion is not computed.

    Raises:
        ValueError: shapes, types or devices do not fit, or there is a unit without a step.
    """
    inputs = density, colour, dt, t, ranges, counters, background
    return Composite(*torch.ops.luxel.composite(*inputs, scale, min_transmittance, step, growth, unit)[:4])


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
    step: float,
    growth: float,
    unit: float,
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
    if unit < 0 or (unit > 0 and not step > 0) or growth < 0:
        raise ValueError(f"composite: unit needs a step above 0, got {unit=}, {step=} and {growth=}")
    lengths = {"step": step, "growth": growth, "unit": unit}
    return arguments | sizes | lengths | {"scale": scale, "min_transmittance": min_transmittance}


def _forward(density: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    arguments = _check(density, *rest)
    rgb, transmittance, depth, distortion, moments = outputs = _fake_forward(density, *rest)
    if len(moments):
        arguments |= {"distortion": distortion, "moments": moments}
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
    g_rgb: Tensor,
    g_transmittance: Tensor | None,
    g_depth: Tensor | None,
    g_distortion: Tensor | None,
    density: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    *inputs, rgb, transmittance, depth, distortion, moments = rest
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
    if g_distortion is not None and len(moments):
        expected |= {
            "g_distortion": (g_distortion, dtype, (rays,)),
            "distortion": (distortion, dtype, (rays,)),
            "moments": (moments, dtype, (rays, 2)),
        }
    require("composite_bwd", density.device, expected)
    arguments |= {
        name: None if tensor is None else tensor.contiguous() for name, (tensor, *_) in expected.items()
    }
    g_density, g_colour = grads = _fake_backward(g_rgb, None, None, None, density, *rest)
    library_for(density.device).call(
        "composite_bwd", density.device, dtype, **arguments, g_density=g_density, g_colour=g_colour
    )
    return grads


def _fake_forward(density: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    rays = rest[3].shape[0]
    distorted = rays if rest[-1] > 0 else 0
    single = density.new_empty(rays), density.new_empty(rays), density.new_empty(distorted)
    return density.new_empty(rays, 3), *single, density.new_empty(distorted, 2)


def _fake_backward(
    g_rgb: Tensor,
    g_transmittance: Tensor | None,
    g_depth: Tensor | None,
    g_distortion: Tensor | None,
    density: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    return density.new_empty(density.shape), density.new_empty(rest[0].shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.scalars = inputs[:7], inputs[7:]
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
    g_rgb, g_transmittance, g_depth, g_distortion, _ = given
    none = (None,) * (5 + len(ctx.scalars))
    if all(g is None for g in (g_rgb, g_transmittance, g_depth, g_distortion)):
        return None, None, *none
    saved = ctx.saved_tensors  # once: torch.utils.checkpoint computes them at the first access and drops them
    tensors, outputs = saved[:7], saved[7:]
    g_rgb = torch.zeros_like(outputs[0]) if g_rgb is None else g_rgb
    others = g_transmittance, g_depth, g_distortion
    all_grads = torch.ops.luxel.composite_bwd(g_rgb, *others, *tensors, *ctx.scalars, *outputs)
    grads = [grad if needed else None for grad, needed in zip(all_grads, ctx.needs_input_grad, strict=False)]
    return *grads, *none


register_implementation("composite", _forward, _fake_forward, _differentiate, _save)
register_implementation("composite_bwd", _backward, _fake_backward)
