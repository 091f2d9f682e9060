"""Colours of high dynamic range, HLG and PQ, to those of standard range that a player shows on an ordinary display.

Signals become light of the display by ITU-R BT.2100 (HLG for a display of 1000 cd/m2, its system gamma 1.2). Light
above what standard range has is compressed by the curve of ITU-R BT.2390 (section 5.4.1) from the peak of the film to
the reference white of 203 cd/m2 (BT.2408), which becomes 1. The curve is applied to the largest of red, green and blue,
and the others follow in proportion. Then come the primaries of BT.709 (colours outside of them are clipped) and the
inverse of the display's gamma of 2.4 (BT.1886).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cv2
import numpy as np

HLG_PEAK, WHITE = 1000.0, 203.0  # cd/m2
SYSTEM_GAMMA = 1.2
DISPLAY_GAMMA = 2.4
DEFAULT_PEAK = 1000.0  # cd/m2, of PQ films without MaxCLL
PQ_PEAK = 10_000.0
M1, M2 = 2610 / 16384, 2523 / 4096 * 128  # of PQ (SMPTE ST 2084)
C1, C2, C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
HLG_A = 0.17883277
HLG_B, HLG_C = 1 - 4 * HLG_A, 0.5 - HLG_A * np.log(4 * HLG_A)
LUMINANCE = {9: (0.2627, 0.6780, 0.0593), 12: (0.2290, 0.6917, 0.0793), 1: (0.2126, 0.7152, 0.0722)}
# Linear RGB to that of BT.709, by FFmpeg's number of the primaries: BT.2020 (BT.2087), Display P3, BT.709.
TO_BT709 = {
    9: [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    12: [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],
    1: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}
STEPS = 1 << 16  # of the tables


def pq_to_light(signal: np.ndarray) -> np.ndarray:
    """cd/m2 of PQ signals in [0, 1]."""
    root = np.asarray(signal, np.float64) ** (1 / M2)
    return PQ_PEAK * (np.maximum(root - C1, 0) / (C2 - C3 * root)) ** (1 / M1)


def light_to_pq(light: np.ndarray) -> np.ndarray:
    """PQ signals in [0, 1] of cd/m2."""
    power = (np.asarray(light, np.float64) / PQ_PEAK) ** M1
    return ((C1 + C2 * power) / (1 + C3 * power)) ** M2


def hlg_to_scene(signal: np.ndarray) -> np.ndarray:
    """Scene light in [0, 1] of HLG signals in [0, 1]."""
    signal = np.asarray(signal, np.float64)
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - HLG_C) / HLG_A) + HLG_B) / 12)


def compressed(light: np.ndarray, peak: float) -> np.ndarray:
    """cd/m2 up to `WHITE` of cd/m2 up to ``peak``, by BT.2390's curve."""
    if peak <= WHITE:
        return np.asarray(light, np.float64)
    top = light_to_pq(np.array(peak))
    values, largest = light_to_pq(np.minimum(light, peak)) / top, float(light_to_pq(np.array(WHITE)) / top)
    knee = 1.5 * largest - 0.5
    t = np.maximum(values - knee, 0) / (1 - knee)
    spline = (
        (2 * t**3 - 3 * t**2 + 1) * knee
        + (t**3 - 2 * t**2 + t) * (1 - knee)
        + (-2 * t**3 + 3 * t**2) * largest
    )
    return pq_to_light(np.where(values < knee, values, spline) * top)


def standard_range(pixels: np.ndarray, transfer: str, primaries: int, peak: float) -> np.ndarray:
    """Colours of standard range, uint8 [H, W, 3].

    Args:
        pixels: signals R'G'B', uint16 [H, W, 3], 65535 is 1.
        transfer: "HLG" or "PQ".
        primaries: FFmpeg's number; those that are not known are taken for BT.2020.
        peak: of PQ, cd/m2.
    """
    primaries = primaries if primaries in TO_BT709 else 9
    decode, gamma, gain = _tables(transfer, HLG_PEAK if transfer == "HLG" else peak)
    light = decode[pixels]  # of 1: the peak
    if transfer == "HLG":
        luminance = cv2.transform(light, np.array([LUMINANCE[primaries]], np.float32))
        light *= gamma[_index(luminance)][..., None]
    light *= gain[_index(light.max(axis=2))][..., None]
    light = cv2.transform(light, np.array(TO_BT709[primaries], np.float32))
    return np.round(255 * cv2.pow(np.clip(light, 0, 1), 1 / DISPLAY_GAMMA)).astype(np.uint8)


def _index(values: np.ndarray) -> np.ndarray:
    return np.round(np.clip(values, 0, 1) * (STEPS - 1)).astype(np.int32)


@cache
def _tables(transfer: str, peak: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Light of signals; the factor of HLG's system gamma by luminance; that from light to standard range by the largest
    component. Light of 1 is the peak, that of standard range `WHITE`; float32, of `STEPS` values of [0, 1]."""
    steps = np.linspace(0, 1, STEPS)
    light = hlg_to_scene(steps) if transfer == "HLG" else np.minimum(pq_to_light(steps), peak) / peak
    gamma = np.maximum(steps, 0.5 / STEPS) ** (SYSTEM_GAMMA - 1)
    nits = np.maximum(steps, 0.5 / STEPS) * peak
    gain = compressed(nits, peak) / nits * (peak / WHITE)
    return light.astype(np.float32), gamma.astype(np.float32), gain.astype(np.float32)


def peak_of(frame: Any) -> float:
    """The peak of a PQ frame (av.VideoFrame), cd/m2: MaxCLL where it states one."""
    try:
        stated = float(np.frombuffer(bytes(frame.side_data["CONTENT_LIGHT_LEVEL"]), np.uint32, 1)[0])
    except (KeyError, ValueError):
        return DEFAULT_PEAK
    return stated if WHITE < stated <= PQ_PEAK else DEFAULT_PEAK
