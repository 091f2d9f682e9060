"""A loss of one's own with its gradient, in a few lines of C++ that are compiled when they are first needed, for the
CPU or the GPU: it compares images in linear light, with luxel's own sRGB curve.

    python examples/own_loss.py [STEPS]      fits the colours of Gaussians to an image with it
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from luxel.render import jit
from luxel.render.geometry.camera import Camera
from luxel.render.native import best_device
from luxel.render.raster.rasterize import rasterize
from luxel.scenes.synthetic.toy import torus_knot

# Charbonnier's loss, sqrt(d^2 + eps^2), of one number of an image; `real` is the type of the tensors.
SOURCE = """
#include "math/camera/camera_response.h"

void linear_charbonnier(int64_t i, const real* image, const real* target, real eps, real* loss, real* g_image) {
  const Slope<real> light = decode_srgb(image[i]);
  const real d = light.value - decode_srgb(target[i]).value;
  loss[i] = root(d * d + eps * eps);
  g_image[i] = d / loss[i] * light.slope;
}
"""


class LinearCharbonnier(torch.autograd.Function):
    """The loss as a function of torch: value and gradient come from one call of the kernel."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, target: Tensor, eps: float) -> Tensor:
        kernel = jit.compile(SOURCE, "linear_charbonnier", image.device, dtype=image.dtype)
        loss, g_image = torch.empty_like(target), torch.empty_like(target)
        kernel(target.numel(), image.contiguous(), target, eps, loss, g_image)
        ctx.save_for_backward(g_image)
        return loss.mean()

    @staticmethod
    def backward(ctx: Any, *g_loss: Tensor) -> tuple[Tensor, None, None]:
        (g_image,) = ctx.saved_tensors
        return g_loss[0] * g_image / g_image.numel(), None, None


def linear_charbonnier(image: Tensor, target: Tensor, eps: float = 1e-3) -> Tensor:
    """Mean of sqrt(d^2 + eps^2) over two sRGB images of one shape, with d their difference in linear light."""
    loss: Any = LinearCharbonnier.apply(image, target.contiguous(), eps)
    return loss


def main(steps: int = 40) -> tuple[float, float]:
    """Returns the loss before and after."""
    device = best_device()
    camera = Camera.look_at(eye=(0, -4, 1.5), target=(0, 0, 0), width=160, height=120).to(device)
    knot = torus_knot(1000).to(device)
    target = rasterize(knot, camera).rgb.detach()
    knot.sh_dc.zero_()
    knot.sh_dc.requires_grad_()
    optimizer = torch.optim.Adam([knot.sh_dc], lr=0.05)
    losses = []
    for _ in range(steps):
        loss = linear_charbonnier(rasterize(knot, camera).rgb, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.4f}, after {steps} steps {losses[-1]:.4f}")
    return losses[0], losses[-1]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
