"""Images that are brighter or darker than others of the same points."""

from __future__ import annotations

import numpy as np

from luxel.scenes.captures.checks.finding import Finding, about_views
from luxel.scenes.captures.checks.measures import Measures
from luxel.scenes.captures.open_capture import Capture

MIN_POINTS = 40  # that a view must share with others
OFFSET = 8.0  # of 255, added to luminances: dark pixels say little about ratios
JUMP = 0.25  # natural logarithm of the ratio to the others, the unit of the values: a quarter brighter
MIN_STOPS = 0.3  # by which EXIF exposures must differ to be named
SPREAD = 3.0  # times the usual deviation of views, which must be exceeded as well


def brightness(measures: Measures) -> np.ndarray:
    """Logarithm of the brightness of each view against all that see the same points, [V]; NaN: it shares too few."""
    logs = np.log(measures.samples + OFFSET)
    shared = np.isfinite(logs).sum(0) >= 3
    out = np.full(len(logs), np.nan)
    if not shared.any():
        return out
    logs = logs[:, shared]
    gains = np.zeros(len(logs))
    for _ in range(4):  # a point's colour is the median over views, given their brightness
        colour = np.nanmedian(logs - gains[:, None], axis=0)
        for row, values in enumerate(logs):
            visible = np.isfinite(values)
            gains[row] = np.median(values[visible] - colour[visible]) if visible.sum() >= MIN_POINTS else 0.0
    enough = np.isfinite(logs).sum(1) >= MIN_POINTS
    out[enough] = gains[enough]
    return out


def _by_exif(capture: Capture, measures: Measures, gains: np.ndarray) -> str:
    """What the exposures of EXIF data have to do with the brightness; empty: too few are known, or they are equal."""
    stops = np.array([capture.exposures.get(name, np.nan) for name in measures.names])
    known = np.isfinite(stops) & np.isfinite(gains)
    if known.sum() < 4 or np.ptp(stops[known]) < MIN_STOPS or np.ptp(gains[known]) == 0:
        return ""
    agreement = float(np.corrcoef(stops[known], gains[known])[0, 1])
    return f" (EXIF exposures differ by {np.ptp(stops[known]):.1f} stops, correlation {agreement:.2f})"


def check_exposure(capture: Capture, measures: Measures) -> list[Finding]:
    """Views that differ from the others by more than JUMP and by more than SPREAD times the usual."""
    gains = brightness(measures)
    known = np.isfinite(gains)
    if known.sum() < 4:
        return []
    middle = float(np.median(gains[known]))
    usual = 1.4826 * float(np.median(np.abs(gains[known] - middle)))
    off = np.where(known, np.abs(gains - middle), 0.0)
    rows = [int(row) for row in np.argsort(-off) if off[row] > max(JUMP, SPREAD * usual)]
    findings = []
    if usual > JUMP / 2:
        findings.append(
            Finding(
                "exposure",
                f"The brightness of the images varies by {100 * (np.exp(usual) - 1):.0f} % between views"
                f"{_by_exif(capture, measures, gains)}.",
                "Train with --exposure affine, or take photographs with a fixed exposure and white balance.",
            )
        )
    problem = (
        f"{len(rows)} of {int(known.sum())} images are brighter or darker than others of the same points"
    )
    remedy = "Train with --exposure affine, which learns the exposure of each image, or remove them."
    return findings + about_views("exposure", measures.names, rows, gains - middle, problem, remedy)
