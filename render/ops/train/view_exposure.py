"""Stage: renders as images of another exposure and white balance would show them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luxel.render.native import library_for
from luxel.render.ops.registry import define, register_implementation, require

PIXELS_EACH = 2048  # of a part of the sums of the gradient
MAX_PARTS = 256
WIDTHS = (3, 9, 12)  # parameters of a view: gain, camera, affine

_INPUTS = "Tensor image, Tensor parameters, Tensor? transmittance, Tensor? background"
define(f"view_exposure({_INPUTS}) -> Tensor")
define(f"view_exposure_bwd(Tensor g_shown, {_INPUTS}) -> (Tensor, Tensor, Tensor)")


def view_exposure(
    image: Tensor, parameters: Tensor, transmittance: Tensor | None = None, background: Tensor | None = None
) -> Tensor:
    """Images through a colour transform each; gradients by image, parameters and transmittance.

    The background that shines through retains its colour: with x = image - transmittance background, the transform of x
    and that background are added. See `luxel.render.reference.train.view_models.exposure_reference`.

    Args:
        image: [B, H, W, 3], float32 or (CPU only) float64.
        parameters: [B, 3], natural logarithms of a factor per channel; or [B, 12], a matrix less the identity, row by
            row, and an offset that is multiplied by 1 - transmittance; or [B, 9], a camera: stops of exposure, those of
            red and of blue more than green, three of vignetting and three of the response curve.
        transmittance: [B, H, W]; None: 0.
        background: [B, 3], needed with transmittance, else it has no part in it.

    Returns:
        [B, H, W, 3].

    Raises:
        ValueError: shapes, types or devices do not fit.
    """
    return torch.ops.luxel.view_exposure(image, parameters, transmittance, background)


def _arguments(
    image: Tensor, parameters: Tensor, transmittance: Tensor | None, background: Tensor | None
) -> dict[str, Any]:
    if image.dim() != 4 or image.shape[3] != 3 or image.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"view_exposure: image must be [B, H, W, 3], float32 or float64, got {list(image.shape)} {image.dtype}"
        )
    if parameters.dim() != 2 or parameters.shape[1] not in WIDTHS:
        raise ValueError(
            f"view_exposure: parameters must be [B, 3], [B, 9] or [B, 12], got {list(parameters.shape)}"
        )
    if transmittance is not None and background is None:
        raise ValueError("view_exposure: with transmittance a background must be given")
    views, height, width, _ = image.shape
    expected = {
        "parameters": (parameters, image.dtype, (views, parameters.shape[1])),
        "transmittance": (transmittance, image.dtype, (views, height, width)),
        "background": (background, image.dtype, (views, 3)),
    }
    require("view_exposure", image.device, expected)
    backdrop = background if transmittance is not None else None
    return {
        "image": image.contiguous(),
        "parameters": parameters.contiguous(),
        "transmittance": None if transmittance is None else transmittance.contiguous(),
        "background": None if backdrop is None else backdrop.contiguous(),
        "views": views,
        "width": width,
        "height": height,
        "width_of_view": parameters.shape[1],
    }


def _forward(
    image: Tensor, parameters: Tensor, transmittance: Tensor | None, background: Tensor | None
) -> Tensor:
    arguments = _arguments(image, parameters, transmittance, background)
    shown = torch.empty_like(image, memory_format=torch.contiguous_format)
    if shown.numel():
        library = library_for(image.device)
        library.call("view_exposure_fwd", image.device, image.dtype, **arguments, parts=1, shown=shown)
    return shown


def _backward(
    g_shown: Tensor,
    image: Tensor,
    parameters: Tensor,
    transmittance: Tensor | None,
    background: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    arguments = _arguments(image, parameters, transmittance, background)
    views, height, width, _ = image.shape
    parts = max(1, min(MAX_PARTS, height * width // PIXELS_EACH))
    g_image = torch.empty_like(image, memory_format=torch.contiguous_format)
    g_through = image.new_empty((0,) if transmittance is None else (views, height, width))
    g_parts = image.new_zeros(views, parts, parameters.shape[1])
    if image.numel():
        library_for(image.device).call(
            "view_exposure_bwd",
            image.device,
            image.dtype,
            **arguments,
            parts=parts,
            g_shown=g_shown.contiguous(),
            g_image=g_image,
            g_transmittance=None if transmittance is None else g_through,
            g_parts=g_parts,
        )
    return g_image, g_parts.sum(1), g_through


def _fake_forward(image: Tensor, *_: object) -> Tensor:
    return torch.empty_like(image, memory_format=torch.contiguous_format)


def _fake_backward(
    g_shown: Tensor, image: Tensor, parameters: Tensor, transmittance: Tensor | None, *_: object
) -> tuple[Tensor, Tensor, Tensor]:
    through = image.new_empty((0,) if transmittance is None else tuple(transmittance.shape))
    return _fake_forward(image), torch.empty_like(parameters), through


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, g_shown: Tensor) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors  # once: torch.utils.checkpoint computes them at the first access and drops them
    g_image, g_parameters, g_through = torch.ops.luxel.view_exposure_bwd(g_shown, *saved)
    return g_image, g_parameters, g_through if saved[2] is not None else None, None


register_implementation("view_exposure", _forward, _fake_forward, _differentiate, _save)
register_implementation("view_exposure_bwd", _backward, _fake_backward)
