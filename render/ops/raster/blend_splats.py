"""Stage: front-to-back alpha blending of splat values per pixel (kernels of the same name)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.native import Library, library_for
from luxel.render.ops.raster.bin_splats import TILE, binned_fields
from luxel.render.ops.raster.policies import Policy, policy
from luxel.render.ops.registry import define, register_implementation

CHANNELS = (3, 4, 6, 7, 8, 16)  # widths that the kernels are compiled for

_INPUTS = "Tensor splats, Tensor values, Tensor? background, Tensor instances, Tensor ranges, Tensor plan"
_OPTIONS = (
    "int width, int height, float max_alpha, bool absolute, bool deterministic, bool median, bool tally, "
    "bool keep, int depth_moments, str policy"
)
_BLOCKS = 8  # of 8 x 4 pixels in a tile
_SHARED = 11  # leading arguments of forward and backward that `_arguments` takes
_FORWARD = 16  # arguments of forward; depth_moments and policy are the last. Backward goes on after them


def _arguments(
    library: Library,
    chosen: Policy,
    splats: Tensor,  # [C, N, R]
    values: Tensor,  # [C, N, D]
    background: Tensor | None,  # [C, D]
    instances: Tensor,  # [capacity] int32
    ranges: Tensor,  # [C * T, 2] int32
    plan: Tensor,
    width: int,
    height: int,
    max_alpha: float,
    absolute: bool,
    deterministic: bool,
    depth_moments: int,
) -> dict[str, Any]:
    (c, n, d), row = values.shape, chosen.row
    if d not in CHANNELS:
        raise ValueError(f"blend: values must have one of {CHANNELS} channels, got {d}")
    if splats.shape != (c, n, row):
        raise ValueError(f"blend: splats of {chosen.name} must be {[c, n, row]}, got {list(splats.shape)}")
    if background is not None and background.shape != (c, d):
        raise ValueError(f"blend: background must be {[c, d]}, got {list(background.shape)}")
    if absolute and not chosen.has_absolute:
        raise ValueError(f"blend: absolute must be False for {chosen.name}")
    most = min(2, d - 3) if chosen.pixel_depth else 0
    if not 0 <= depth_moments <= most:
        raise ValueError(f"blend: depth_moments of {chosen.name} must be 0 to {most}, got {depth_moments}")
    return {
        **binned_fields(library, chosen.name, splats, instances, ranges, plan, width, height, max_alpha),
        "values": values.contiguous(),
        "background": None if background is None else background.contiguous(),
        "channels": d,
        "absolute": int(absolute),
        "deterministic": int(deterministic),
        "depth_moments": depth_moments,
    }


def _forward(*args: Any) -> tuple[Tensor, ...]:
    splats, ranges = args[0], args[4]
    depth_moments, name = args[_FORWARD - 2 :]
    chosen, library = policy(name, "blend"), library_for(splats.device)
    arguments = _arguments(library, chosen, *args[:_SHARED], depth_moments=depth_moments)
    image, transmittance, last, contributors, median_depth, states = outputs = _fake(*args)
    touched = _touched(chosen, arguments["capacity"], ranges.shape[0])
    if touched and states.numel():
        states[-touched:].zero_()
    library.call(
        "blend_fwd",
        splats.device,
        splats.dtype,
        **arguments,
        image=image,
        transmittance=transmittance,
        last=last if last.numel() else None,
        contributors=contributors if contributors.numel() else None,
        median_depth=median_depth if median_depth.numel() else None,
        states=states if states.numel() else None,
    )
    return outputs


def _fake(
    splats: Tensor,
    values: Tensor,
    background: Tensor | None,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    width: int,
    height: int,
    max_alpha: float,
    absolute: bool,
    deterministic: bool,
    median: bool,
    tally: bool,
    keep: bool,
    depth_moments: int,
    name: str,
) -> tuple[Tensor, ...]:
    c, _, d = values.shape
    chosen = policy(name, "blend")
    image, nothing = (c, height, width), (0,)
    return (
        splats.new_empty(*image, d),
        splats.new_empty(image),
        splats.new_empty(image if keep else nothing, dtype=torch.int32),
        splats.new_empty(image if tally else nothing, dtype=torch.int32),
        splats.new_empty(image if median else nothing),
        splats.new_empty(_states(chosen, instances, ranges, d) if keep and splats.is_cuda else 0),
    )


def _states(chosen: Policy, instances: Tensor, ranges: Tensor, channels: int) -> int:
    """Numbers that the backward pass on a GPU needs from the forward pass."""
    capacity = instances.shape[0]
    pieces = capacity // chosen.piece * (channels + 1) * TILE * TILE
    return pieces + _touched(chosen, capacity, ranges.shape[0])


def _touched(chosen: Policy, capacity: int, tiles: int) -> int:
    """The last of these: words of which splats of a list counted in which block. Words that no warp writes stay 0."""
    return (capacity // 32 + tiles + 1) * _BLOCKS if chosen.multi_edge else 0


def _backward(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    splats, values, background = args[:3]
    depth_moments, name = args[_FORWARD - 2 : _FORWARD]
    image, transmittance, last, states, g_image, g_transmittance, *rest = args[_FORWARD:]
    # Defaults are left out by the dispatcher.
    of_background = background is not None and (not rest or bool(rest[0]))
    raw_moments = len(rest) > 1 and bool(rest[1])
    device, dtype = splats.device, splats.dtype
    library = library_for(device)
    arguments = _arguments(library, policy(name, "blend"), *args[:_SHARED], depth_moments=depth_moments)
    sizes = {
        k: arguments[k]
        for k in (
            "policy",
            "capacity",
            "count",
            "cameras",
            "width",
            "height",
            "channels",
            "absolute",
            "deterministic",
        )
    }
    needed = library.call("blend_workspace", device, dtype, **sizes)
    g_splats, g_values = torch.zeros_like(arguments["splats"]), torch.zeros_like(arguments["values"])
    g_background = (splats.new_zeros if of_background else splats.new_empty)(values.shape[0], values.shape[2])
    library.call(
        "blend_bwd",
        device,
        dtype,
        **arguments,
        raw_moments=int(raw_moments),
        final_image=image,
        transmittance=transmittance,
        last=last,
        states=states if states.numel() else None,
        g_image=g_image.contiguous(),
        g_transmittance=None if g_transmittance is None else g_transmittance.contiguous(),
        g_splats=g_splats,
        g_values=g_values,
        g_background=g_background if of_background else None,
        workspace=torch.empty(needed, dtype=torch.uint8, device=device),
        workspace_bytes=needed,
    )
    return g_splats, g_values, g_background


def _backward_fake(splats: Tensor, values: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(splats, memory_format=torch.contiguous_format),
        torch.empty_like(values, memory_format=torch.contiguous_format),
        splats.new_empty(values.shape[0], values.shape[2]),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:6], *output[:3], output[5])
    ctx.options = inputs[6:]
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, g_image: Tensor | None, g_transmittance: Tensor | None, *_: Any) -> tuple[Any, ...]:
    # Once: torch.utils.checkpoint computes them at the first access and drops them.
    tensors = ctx.saved_tensors
    inputs, saved = tensors[:6], tensors[6:]
    splats, values = inputs[:2]
    of_background = ctx.needs_input_grad[2]
    if g_image is None:
        g_image = splats.new_zeros(*saved[1].shape, values.shape[2])
    g_splats, g_values, g_background = torch.ops.luxel.blend_bwd(
        *inputs, *ctx.options, *saved, g_image, g_transmittance, of_background
    )
    return g_splats, g_values, g_background if of_background else None, *(None,) * (3 + len(ctx.options))


define(f"blend({_INPUTS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
define(
    f"blend_bwd({_INPUTS}, {_OPTIONS}, Tensor image, Tensor transmittance, Tensor last, "
    "Tensor states, Tensor g_image, Tensor? g_transmittance, bool of_background=True, bool raw_moments=False)"
    " -> (Tensor, Tensor, Tensor)"
)
register_implementation("blend", _forward, _fake, _autograd, _setup_context)
register_implementation("blend_bwd", _backward, _backward_fake)


class BlendInputs(NamedTuple):
    """The tensors that are blended; see `blend_splats`."""

    splats: Tensor  # [C, N, R]
    values: Tensor  # [C, N, D]
    background: Tensor | None  # [C, D]
    instances: Tensor  # of `bin_splats`, like the next two
    ranges: Tensor
    plan: Tensor


class BlendSettings(NamedTuple):
    """What forward and backward of blending have in common; see `blend_splats`."""

    policy: str
    width: int
    height: int
    max_alpha: float
    absolute: bool
    deterministic: bool
    depth_moments: int = 0

    def options(self, median: bool, tally: bool, keep: bool) -> tuple[Any, ...]:
        """The options of the operation, in order."""
        sizes = self.width, self.height, self.max_alpha, self.absolute, self.deterministic
        return *sizes, median, tally, keep, self.depth_moments, self.policy


def blend_splats(
    splats: Tensor,
    values: Tensor,
    background: Tensor | None,
    instances: Tensor,
    ranges: Tensor,
    plan: Tensor,
    *,
    primitive: str = "gaussians",
    width: int,
    height: int,
    max_alpha: float,
    absolute: bool = False,
    deterministic: bool = False,
    median: bool = False,
    tally: bool = False,
    depth_moments: int = 0,
) -> tuple[Tensor, ...]:
    """Blends values front to back: image = sum_i T_i alpha_i value_i + T_end background.

    alpha_i = min(max_alpha, opacity_i exp(-power_i)) of Gaussians; contributions under 1/255 are skipped, and a pixel
    ends before T would fall to 1e-4 (Kerbl et al. 2023, equation 3 and appendix C). Of convexes alpha_i =
    min(max_alpha, opacity_i I_i(q)), where I = sigmoid(-sigma z phi), phi(q) = ln sum_j exp(delta z L_j(q)), and L_j is
    the signed value of edge j, see `project_convexes` (Held et al. 2025, "3D Convex Splatting", equations 4 to 7). Of
    surfels alpha_i = min(max_alpha, opacity_i max(exp(-(u^2 + v^2) / 2), exp(-d^2))), with u, v where the ray meets the
    plane and d the distance in pixels from the centre (Huang et al. 2024, "2D Gaussian Splatting", equation 11).

    Args:
        splats: [C, N, 8], of surfels [C, N, 12], of convexes [C, N, 28], where of the gradient only opacity, delta z,
            sigma z and corners are not 0. values: [C, N, D], D one of ``CHANNELS``. background: [C, D] or None for 0.
        instances, ranges, plan: from `bin_splats`.
        primitive: as in `bin_splats`.
        width, height: image size in pixels.
        max_alpha: cap; where it holds, alpha has no gradient.
        deterministic: sum gradients in a fixed order on the GPU too (slower, and takes about 100 bytes more per
            tile instance); on the CPU they always are.
        absolute: put sums over pixels of |d loss / d x|, |d loss / d y| into slots 3 and 7 of the gradient of
            splats (AbsGS, Ye et al. 2024), which otherwise are 0. Convexes have none.
        depth_moments: of surfels. 1: channel 3 is the depth of the centre and is blended as that at each pixel, where
            the ray meets the plane, or of the centre where only the second term above counts; 2: channel 4 is its
            square, likewise.
        median: fill the last output (else empty). tally: count contributors (else empty).

    Returns:
        image [C, H, W, D], transmittance [C, H, W] (T_end), last [C, H, W] int32 (one past the last contributing
        instance), contributors [C, H, W] int32, median_depth [C, H, W] (0 where T stays above 1/2). Only image
        and transmittance carry gradients. ``last`` is empty where no input requires a gradient.

    Raises:
        ValueError: shapes do not fit, ``absolute`` of a policy without it, or ``depth_moments`` that it or the
            values do not have.
    """
    inputs = BlendInputs(splats, values, background, instances, ranges, plan)
    settings = BlendSettings(primitive, width, height, max_alpha, absolute, deterministic, depth_moments)
    return blend_splats_fwd(inputs, settings, median=median, tally=tally)[:5]


class Blended(NamedTuple):
    """The outputs of blending; see `blend_splats`."""

    image: Tensor  # [C, H, W, D]
    transmittance: Tensor  # [C, H, W]
    last: Tensor  # [C, H, W] int32, or empty
    contributors: Tensor  # [C, H, W] int32, or empty
    median_depth: Tensor  # [C, H, W], or empty
    states: Tensor  # what the backward on a GPU needs, or empty


def blend_splats_fwd(
    inputs: BlendInputs,
    settings: BlendSettings,
    *,
    median: bool = False,
    tally: bool = False,
    keep: bool | None = None,
) -> Blended:
    """`blend_splats` with all outputs.

    Args:
        inputs, settings, median, tally: see `blend_splats`.
        keep: fill ``last`` and ``states`` for `blend_splats_bwd`; None: if an input requires a gradient.
    """
    if keep is None:
        keep = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs[:3])
    return Blended(*torch.ops.luxel.blend(*inputs, *settings.options(median, tally, keep)))


def blend_splats_bwd(
    inputs: BlendInputs,
    settings: BlendSettings,
    blended: Blended,
    g_image: Tensor,
    g_transmittance: Tensor | None,
    *,
    of_background: bool = True,
    raw_moments: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by splats, values and background, without autograd.

    Args:
        inputs, settings: as given to `blend_splats_fwd`.
        blended: from `blend_splats_fwd` with ``keep``.
        g_image: [C, H, W, D]. g_transmittance: [C, H, W] or None for 0.
        of_background: else the last gradient is undefined.
        raw_moments: leave the gradient of splats as sums over pixels that the projection's backward finishes.
    """
    saved = blended.image, blended.transmittance, blended.last, blended.states
    return torch.ops.luxel.blend_bwd(
        *inputs,
        *settings.options(False, False, True),
        *saved,
        g_image,
        g_transmittance,
        of_background,
        raw_moments,
    )
