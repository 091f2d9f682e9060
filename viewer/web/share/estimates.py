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


# Seconds for a number of a parameter, until a job was measured: about those of 100,000 Gaussians of SH degrees 0 and 3
# on two CPU cores.
RATES = {
    ".ply": 1e-7,
    ".compressed.ply": 1e-7,
    ".splat": 3e-8,
    ".spz": 1e-7,
    ".sog": 1e-6,
    ".glb": 3e-8,
    ".safetensors": 1.5e-8,
    ".html": 1e-6,
}
