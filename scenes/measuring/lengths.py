"""Lengths with their units, as people read and type them."""

from __future__ import annotations

import math

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}  # metres


def length_in_words(length: float, metres: float | None = None, digits: int = 4) -> str:
    """A length with its unit: in units of the capture, or in km, m, cm or mm where the length of a unit is known.

    Args:
        length: in units of the capture.
        metres: length of a unit; None: it is not known.
        digits: that are significant.
    """
    if not math.isfinite(length):
        return "–"
    if metres is None:
        return f"{_digits(length, digits)} units"
    known = length * metres
    for unit, size in (("km", 1000.0), ("m", 1.0), ("cm", 0.01)):
        if float(f"{abs(known):.{digits}g}") >= size:
            return f"{_digits(known / size, digits)} {unit}"
    return f"{_digits(known / 0.001, digits)} mm"


def _digits(value: float, digits: int) -> str:
    """A number with so many significant digits, trailing zeros too; an exponent only where it is tiny or huge."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if not -digits < exponent < 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"
