"""Figures of SAGOnline and of what it compares with, as its paper states them."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Sun et al. 2025, arXiv 2508.08219, version 2"
HARDWARE = "RTX 4090, i5-11400F, 960x540"


@dataclass(frozen=True)
class PublishedSpeed:
    """A method's figures.

    Args:
        method: its name.
        nvos, spin: mIoU in percent on NVOS and SPIn-NeRF; None: not stated.
        frame_ms: milliseconds of the masks of a view, as text: some are bounds.
        preparation: time before the first masks, as text.
    """

    method: str
    nvos: float | None
    spin: float | None
    frame_ms: str
    preparation: str


METHODS = (
    PublishedSpeed("SAGOnline", 92.7, 95.2, "27 (first masks: 97)", "0 s (4 to 5 min in the background)"),
    PublishedSpeed("SAGA", 92.6, 93.4, "31", "32 min"),
    PublishedSpeed("OmniSeg3D-GS", 91.7, 95.2, "463", "37 min"),
    PublishedSpeed("SA3D-GS", 92.2, 93.2, "over 50,000", "–"),
    PublishedSpeed("Feature-3DGS", None, None, "510", "35 min"),
    PublishedSpeed("GARField", None, None, "3000", "45 min"),
)
# SAGOnline's milliseconds of aggregating the labels of so many masks.
AGGREGATION = {206: 1466, 100: 571, 50: 384, 25: 224, 12: 162, 6: 140, 3: 114, 1: 111}
AGGREGATION_MS = 7.1  # of a mask, with 206 masks
