"""Terms of images in a step without autograd: their gradients by what was blended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from luxel.render.ops.raster.blend_splats import Blended
from luxel.render.primitives.parameters import Viewing
from luxel.render.primitives.terms import StepImages
from luxel.render.train.step.terms.active import ActiveTerms
from luxel.render.train.views.dataset import Target


class ImageGradients:
    """Sums of gradients by the colours, the channels after them, and the transmittance; the first of each is adopted.

    Args:
        channels: number of channels after the colours.
        rgb: gradient by the colours so far, [B, H, W, 3]. transmittance: likewise, [B, H, W]; None: none.
    """

    def __init__(self, channels: int, rgb: Tensor, transmittance: Tensor | None) -> None:
        self.rgb, self.transmittance, self._more = rgb, transmittance, None
        self._channels = channels

    def add(self, channel: str, gradient: Tensor) -> None:
        """Adds a gradient by "rgb", "transmittance", "more" (all channels after the colours) or "depth"."""
        if channel == "rgb":
            self.rgb = self.rgb + gradient
        elif channel == "transmittance":
            total = self.transmittance
            self.transmittance = gradient if total is None else total + gradient
        else:
            if channel == "depth":
                gradient = torch.nn.functional.pad(gradient[..., None], (0, self._channels - 1))
            self._more = gradient if self._more is None else self._more + gradient

    @property
    def image(self) -> Tensor:
        """The gradient by all channels, [B, H, W, 3 + channels]."""
        if not self._channels:
            return self.rgb
        more = self._more
        if more is None:
            more = self.rgb.new_zeros(*self.rgb.shape[:-1], self._channels)
        return torch.cat([self.rgb, more], -1)


def step_images(
    rgb: Tensor,
    more: Tensor | None,
    transmittance: Tensor,
    *,
    target: Target,
    view: Viewing,
    moments: int,
    planar: bool,
) -> StepImages:
    """The images of a step from what was blended.

    Args:
        rgb: colours, [B, H, W, 3].
        more: channels after them, [B, H, W, D]; None: there are none.
        transmittance: [B, H, W].
        target: training images of the B views.
        view: their cameras, and which channels there are.
        moments: `Parameters.depth_moments`; of 2 there is the square of the depth.
        planar: whether the primitives are `Parameters.planar`.
    """
    absent: Any = None
    depth = square = normals = distance = absent
    if more is not None:
        depth = more[..., 0]
    if more is not None and view.with_normals:
        first = 1 + int(moments > 1)  # channel of the normals
        square = more[..., 1] if moments > 1 else None
        normals = more[..., first : first + 3]
        distance = more[..., -1] if planar else None
    return StepImages(
        depth,
        square,
        normals,
        transmittance,
        target.weight,
        view.world_to_cam,
        view.intrinsics,
        distance,
        target.rgb,
        rgb,
        target.alpha,
        target.depth,
    )


def add_image_terms(
    terms: ActiveTerms,
    blended: Blended,
    images: Callable[[Tensor, Tensor | None, Tensor], StepImages],
    row: Tensor,
    gradients: ImageGradients,
) -> dict[str, Tensor]:
    """Adds the gradients of all terms of images, each times its weight.

    Args:
        terms: of the step.
        blended: images of all channels.
        images: `step_images` from colours, further channels and transmittance.
        row: of the table, [28].
        gradients: added to.

    Returns:
        The weighted values of those with gradients of their own that give one, by name.
    """
    values: dict[str, Tensor] = {}
    rgb, transmittance = blended.image[..., :3], blended.transmittance
    more = blended.image[..., 3:] if blended.image.shape[-1] > 3 else None
    for each in terms.weighted:
        assert each.term.gradients is not None
        value, parts = each.term.gradients(images(rgb, more, transmittance), each.weight(row))
        for channel, gradient in parts.items():
            gradients.add(channel, gradient)
        if value is not None:
            values[each.term.name] = value
    if not terms.of_images:
        return values
    of_rgb = any("rgb" in each.term.reads for each in terms.of_images)
    channels = {"more": more, "transmittance": transmittance, "rgb": rgb if of_rgb else None}
    leaves = {
        name: channel.detach().requires_grad_() for name, channel in channels.items() if channel is not None
    }
    with torch.enable_grad():
        shown = images(leaves.get("rgb", rgb), leaves.get("more"), leaves["transmittance"])
        losses = [(each.term.apply(shown), each.on_device) for each in terms.of_images]
    losses = [(loss, weight) for loss, weight in losses if loss is not None]
    if not losses:
        return values
    outputs, weights = zip(*losses, strict=True)
    of_leaves = torch.autograd.grad(outputs, list(leaves.values()), weights, allow_unused=True)
    for name, gradient in zip(leaves, of_leaves, strict=True):
        if gradient is not None:
            gradients.add(name, gradient)
    return values
