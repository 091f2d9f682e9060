"""Exposure from EXIF data: time, sensitivity and aperture, and by how many stops images differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

EXIF_IFD = 0x8769
TIME, APERTURE, SENSITIVITY, APEX_TIME, APEX_APERTURE = 0x829A, 0x829D, 0x8827, 0x9201, 0x9202


@dataclass(frozen=True)
class Exposure:
    """How an image was exposed.

    Args:
        seconds: exposure time.
        sensitivity: ISO speed; None: not known.
        aperture: f-number; None: not known.
    """

    seconds: float
    sensitivity: float | None = None
    aperture: float | None = None

    @property
    def stops(self) -> float:
        """Logarithm to base 2 of time x ISO / 100 / f-number^2, with 1 for what is not known."""
        return math.log2(self.seconds * (self.sensitivity or 100) / 100 / (self.aperture or 1) ** 2)

    def __str__(self) -> str:
        time = f"1/{1 / self.seconds:.0f} s" if self.seconds < 0.3 else f"{self.seconds:.3g} s"
        parts = [time, f"f/{self.aperture:.3g}" if self.aperture else ""]
        parts.append(f"ISO {self.sensitivity:.0f}" if self.sensitivity else "")
        return " ".join(part for part in parts if part)


def exposure_of(exif: Image.Exif) -> Exposure | None:
    """The exposure that EXIF data state; None: they state no time, or none that a camera has."""
    given = exif.get_ifd(EXIF_IFD)
    seconds = _positive(given.get(TIME))
    if seconds is None:
        apex = _number(given.get(APEX_TIME))
        seconds = 2**-apex if apex is not None and abs(apex) < 40 else None
    if seconds is None or not 1e-7 < seconds < 1e5:
        return None
    aperture = _positive(given.get(APERTURE))
    if aperture is None:
        apex = _number(given.get(APEX_APERTURE))
        aperture = 2 ** (0.5 * apex) if apex is not None and 0 < apex < 20 else None
    sensitivity = _positive(given.get(SENSITIVITY))
    return Exposure(
        seconds,
        sensitivity if sensitivity is not None and sensitivity < 1e8 else None,
        aperture if aperture is not None and 0.1 < aperture < 1e3 else None,
    )


def _number(value: object) -> float | None:
    """A number, or the first of several; None: it is neither, or not finite."""
    if isinstance(value, tuple | list):
        value = value[0] if value else None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) else None


def _positive(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def relative_stops(exposures: Mapping[str, Exposure]) -> dict[str, float]:
    """Stops by which images are exposed more than the median of all.

    Args:
        exposures: by name. Those that lack a value that most have are left out, as they cannot be compared.
    """
    if not exposures:
        return {}
    has = {name: (e.sensitivity is not None, e.aperture is not None) for name, e in exposures.items()}
    usual = Counter(has.values()).most_common(1)[0][0]
    stops = {name: e.stops for name, e in exposures.items() if has[name] == usual}
    middle = float(np.median(list(stops.values())))
    return {name: value - middle for name, value in stops.items()}
