"""False colours, and what is said about an image: its caption, its colour bar, why it is empty."""

from __future__ import annotations

import html
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Dark to bright with rising lightness, so that order is visible without reading a legend.
EMBER = np.array(
    [[10, 8, 30], [62, 18, 110], [150, 36, 110], [222, 74, 62], [250, 150, 40], [252, 236, 160]], np.float32
)

# Blue below zero, dark grey at zero, orange above.
SIGNED = np.array(
    [[150, 205, 255], [50, 110, 220], [24, 24, 28], [220, 105, 30], [255, 220, 150]], np.float32
)


class Legend(NamedTuple):
    """A colour bar.

    Args:
        low, high: labels of its ends, with units.
        palette: colours from low to high, 0..255, [K, 3].
    """

    low: str
    high: str
    palette: np.ndarray = EMBER

    def as_html(self) -> str:
        """The bar with its labels, as wide as a panel."""
        stops = ", ".join("rgb({:.0f},{:.0f},{:.0f})".format(*colour) for colour in self.palette)
        return (
            '<div style="padding:0.1em 0.9em 0.4em;font-size:13px">'
            f'<div style="height:0.7em;border-radius:0.2em;background:linear-gradient(90deg,{stops})"></div>'
            '<div style="display:flex;justify-content:space-between;font-variant-numeric:tabular-nums">'
            f"<span>{html.escape(self.low)}</span><span>{html.escape(self.high)}</span></div></div>"
        )


class Caption(str):
    """A line about an image, with what else a page shows of it; a plain string for all that need only the line.

    Args:
        text: the line; empty where there is nothing to say.
        legend: colour bar of a false-colour image.
        notice: why the image is empty, and what to do; empty where it is not.
    """

    legend: Legend | None
    notice: str

    def __new__(cls, text: str = "", legend: Legend | None = None, notice: str = "") -> Caption:
        """Makes the line and attaches the rest."""
        caption = super().__new__(cls, text)
        caption.legend, caption.notice = legend, notice
        return caption


def legend_of(caption: str) -> Legend | None:
    """The colour bar of a caption; None for a plain string."""
    return caption.legend if isinstance(caption, Caption) else None


def notice_of(caption: str) -> str:
    """Why an image is empty; empty for a plain string."""
    return caption.notice if isinstance(caption, Caption) else ""


def spread(values: Tensor, limit: int = 100_000) -> tuple[float, float]:
    """The 2nd and 98th percentile of the finite values, every Nth where there are many; (0, 1) of none."""
    values = values.detach().flatten()
    values = values[:: max(1, values.numel() // limit)]
    values = values[torch.isfinite(values)].float()
    if values.numel() == 0:
        return 0.0, 1.0
    low, high = torch.quantile(values, values.new_tensor([0.02, 0.98])).tolist()
    return low, high


def false_colour(values: Tensor, palette: np.ndarray = EMBER) -> Tensor:
    """Colours [..., 3] of values in [0, 1] (clamped; NaN becomes 0), interpolated in a palette."""
    table = torch.as_tensor(palette / 255, dtype=torch.float32, device=values.device)
    position = values.float().nan_to_num(0.0).clamp(0, 1) * (len(table) - 1)
    lower = position.floor().clamp(max=len(table) - 2).long()
    weight = (position - lower)[..., None]
    return table[lower] * (1 - weight) + table[lower + 1] * weight
