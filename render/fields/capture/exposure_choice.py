"""Whether the exposures of a capture's images differ, by the brightness of the same object from neighbouring views."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from luxel.render.fields.capture.posed_images import DeviceImages
from luxel.render.fields.radiance_config import ExposureName

NEAREST = 4  # views by direction, with whose mean brightness that of a view is compared
MIN_VIEWS = 16  # below which nothing is known
CHANGES = (
    0.03  # natural logarithm of brightness: usual difference from neighbours above which exposures differ
)
OPAQUE = 250  # alpha, of 255, of pixels that show nothing but the object
OFFSET = 8.0  # of 255, added to brightness: dark pixels say little about ratios
MAX_PIXELS = 1 << 16  # of an image


def exposure_of(images: DeviceImages) -> ExposureName:
    """ "affine" where the brightness of an object changes from view to view, else "none".

    Shading changes smoothly with the direction of view, a camera that meters each image anew does not: with constant
    exposures made and real objects differ from their neighbours by 0.01 to 0.02, with changing ones by 0.04 to 0.3.

    Args:
        images: of an object that most views show as a whole.
    """
    return "affine" if brightness_change(images) > CHANGES else "none"


def brightness_change(images: DeviceImages) -> float:
    """The usual difference of a view's brightness from the mean of its nearest views by direction, natural logarithm.

    A polynomial of the direction, of degree 2, is subtracted first: shading from one side. The usual difference is
    1.4826 times the median of the absolute deviations from the median, the standard deviation of normal numbers; 0 for
    fewer than `MIN_VIEWS` views.
    """
    count = len(images.table)
    if count < MIN_VIEWS:
        return 0.0
    ahead = images.world_to_cam[:, 2, :3].double().cpu()
    levels = _without_shading(brightness(images).double().cpu(), ahead)
    alike = ahead @ ahead.T
    alike.fill_diagonal_(-2.0)
    nearest = alike.topk(NEAREST, dim=1).indices
    differences = levels - levels[nearest].mean(1)
    return 1.4826 * float((differences - differences.median()).abs().median())


def _without_shading(levels: Tensor, ahead: Tensor) -> Tensor:
    """What a polynomial of the directions leaves of levels [V], as large as with as many unknowns fewer."""
    x, y, z = ahead.unbind(1)
    terms = torch.stack([torch.ones_like(x), x, y, z, x * y, y * z, z * x, x * x - y * y, z * z], 1)
    fit = torch.linalg.lstsq(terms, levels[:, None], driver="gelsd")
    left = levels - (terms @ fit.solution)[:, 0]
    return left * (len(levels) / (len(levels) - min(int(fit.rank), len(levels) - 1))) ** 0.5


def brightness(images: DeviceImages) -> Tensor:
    """The mean logarithm of the brightness of each image where it is opaque, [V]."""
    starts = [*images.table[:, 0].tolist(), len(images.pixels)]
    levels = []
    for first, last in pairwise(starts):
        pixels = images.pixels[first : last : 1 + (last - first) // MAX_PIXELS].float()
        if pixels.shape[1] == 4:
            pixels = pixels[pixels[:, 3] >= OPAQUE]
        levels.append((pixels[:, :3].mean(1) + OFFSET).log().mean())
    return torch.stack(levels).nan_to_num(nan=float(torch.tensor(OFFSET).log()))
