"""How long work takes that does not report its progress."""

from __future__ import annotations


class Estimates:
    """Seconds for each unit of a kind of work, as they were measured by earlier jobs."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}

    def seconds(self, rate: str, units: int) -> float | None:
        """The time for a number of units; None: it is not known."""
        known = self._rates.get(rate, RATES.get(rate))
        return None if known is None or not units else known * units

    def measured(self, rate: str, units: int, seconds: float) -> None:
        """Takes what a job has needed."""
        if rate and units:
            self._rates[rate] = seconds / units


# Seconds for a primitive, until a job was measured: a million Gaussians on two CPU cores.
RATES = {
    ".ply": 1.5e-6,
    ".compressed.ply": 3e-6,
    ".splat": 1.5e-6,
    ".spz": 5e-6,
    ".sog": 15e-6,
    ".glb": 5e-6,
    ".safetensors": 1e-6,
    ".html": 15e-6,
}
