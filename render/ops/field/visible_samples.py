"""Stage: compacts samples along rays to the visible ones (kernels of the same name)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.field.march_limits import MIN_TRANSMITTANCE
from luxel.render.ops.field.march_rays import COUNTERS, Samples
from luxel.render.ops.registry import define, register_implementation, require

define(
    "visible_samples(Tensor positions, Tensor directions, Tensor t, Tensor dt, Tensor ranges, Tensor counters, "
    "Tensor density, Tensor(a!)? live, int capacity, int target, int raw_target, float scale, "
    "float min_transmittance, float min_alpha) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def visible_samples(
    raw: Samples,
    density: Tensor,
    *,
    capacity: int,
    scale: float = 1.0,
    min_transmittance: float = MIN_TRANSMITTANCE,
    min_alpha: float = 0.0,
    live: Tensor | None = None,
    target: int = 0,
    raw_target: int = 0,
) -> Samples:
    """Compacts samples along rays to the visible ones; nothing waits for the device.

    Of every ray the samples before the first whose transmittance is below ``min_transmittance``, which is where
    `composite` ends it too, and of these, with ``min_alpha``, those that are dense enough (Li et al. 2023, "NerfAcc",
    section 3). See `luxel.render.reference.field.visible_samples.visible_samples_reference`. Not differentiable.

    Args:
        raw: samples as `march_rays` gives them, M of them, float32 or (CPU only) float64. It leaves ``live`` as it is
            where it is given no target.
        density: at these, before its activation, as `composite` takes it, [M]; the numbers may lie apart.
        capacity: S, capacity for visible samples. Rays for which there is none left have none.
        scale: of lengths, as in `composite`.
        min_transmittance: samples with a smaller transmittance in front are not visible.
        min_alpha: samples whose 1 - exp(-scale exp(density) dt) is less are left out; what is behind them is visible
            through them all the same. 0: none.
        live: how many rays count in the next step, int32 [1]; None: not computed.
        target: above 0, ``live`` becomes how many rays would have had so many visible samples, moved by at most a
            factor of 2.
        raw_target: above 0, and with a target: nor more rays than would have had so many raw samples.

    Returns:
        Samples, as `march_rays` gives them. Rays without capacity are those that either stage had none for.

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    rest = capacity, target, raw_target, scale, min_transmittance, min_alpha
    return Samples(*torch.ops.luxel.visible_samples(*raw, density.detach(), live, *rest))


def _run(*inputs: Any) -> tuple[Tensor, ...]:
    *tensors, capacity, target, raw_target, scale, min_transmittance, min_alpha = inputs
    positions, directions, t, dt, ranges, counters, density, live = tensors
    if t.dim() != 1 or t.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"visible_samples: t must be [M], float32 or float64, got {list(t.shape)} {t.dtype}")
    if not 0 < capacity < 2**31 - 1:
        raise ValueError(f"visible_samples: capacity must be 1 to 2^31 - 2, got {capacity}")
    samples, rays, dtype = t.shape[0], ranges.shape[0], t.dtype
    expected: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "raw_positions": (positions, dtype, (samples, 3)),
        "raw_directions": (directions, dtype, (samples, 3)),
        "raw_t": (t, dtype, (samples,)),
        "raw_dt": (dt, dtype, (samples,)),
        "raw_ranges": (ranges, torch.int32, (rays, 2)),
        "raw_counters": (counters, torch.int64, (COUNTERS,)),
    }
    apart: dict[str, tuple[Tensor | None, torch.dtype, tuple[int, ...]]] = {
        "density": (density, dtype, (samples,)),
        "live": (live, torch.int32, (1,)),
    }
    require("visible_samples", t.device, expected | apart)
    arguments: dict[str, Any] = {
        name: None if x is None else x.contiguous() for name, (x, *_) in expected.items()
    }
    outputs = _fake(*inputs)
    names = ("positions", "sample_directions", "t", "dt", "ranges", "counters")
    arguments |= dict(zip(names, outputs, strict=True))
    arguments |= {"density": density.data_ptr(), "density_stride": density.stride(0), "live": live}
    if min_alpha > 0:
        arguments["kept"] = torch.empty(samples, dtype=torch.uint8, device=t.device)
    library_for(t.device).call(
        "visible_samples",
        t.device,
        dtype,
        **arguments,
        count=rays,
        capacity=capacity,
        target=target,
        raw_target=raw_target,
        scale=scale,
        min_transmittance=min_transmittance,
        min_alpha=min_alpha,
    )
    return outputs


def _fake(*inputs: Any) -> tuple[Tensor, ...]:
    _, _, t, _, ranges, counters, _, _, capacity, *_ = inputs
    positions = t.new_empty(capacity, 3)
    return (
        positions,
        torch.empty_like(positions),
        t.new_empty(capacity),
        t.new_empty(capacity),
        ranges.new_empty(ranges.shape[0], 2),
        counters.new_empty(COUNTERS),
    )


register_implementation("visible_samples", _run, _fake)
