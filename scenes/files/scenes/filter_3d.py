"""The 3D smoothing filter of Mip-Splatting (Yu et al. 2024, section 4.1), beside raw parameters in a PLY file.

Files of Mip-Splatting, GOF and RaDe-GS have a column filter_3D: the standard deviation f of the isotropic Gaussian with
which each Gaussian is convolved. Scales become sqrt(s^2 + f^2), and the opacity is multiplied by the square root of the
ratio of the determinants of the covariances, the product of s over that of sqrt(s^2 + f^2).
"""

from __future__ import annotations

import numpy as np


def with_filter(
    log_scales: np.ndarray, opacity_logits: np.ndarray, deviation: np.ndarray
) -> dict[str, np.ndarray]:
    """The parameters of the filtered Gaussians, by name; those with a filter of 0 stay as they are.

    Args:
        log_scales: float32 [N, 3].
        opacity_logits: float32 [N].
        deviation: of the filter, in the unit of the scales, [N].
    """
    raw = log_scales.astype(np.float64)
    with np.errstate(all="ignore"):
        wide = np.logaddexp(2 * raw, 2 * np.log(np.abs(deviation.astype(np.float64)))[:, None]) / 2
        log_opacity = -np.logaddexp(0, -opacity_logits.astype(np.float64)) + (raw - wide).sum(axis=1)
        logits = log_opacity - np.log(-np.expm1(log_opacity))
    filtered = deviation != 0
    return {
        "log_scales": np.where(filtered[:, None], wide, raw).astype(np.float32),
        "opacity_logits": np.where(filtered, logits, opacity_logits).astype(np.float32),
    }
