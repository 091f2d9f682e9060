"""How much an accelerator of encodings and networks would speed up a frame, by the model of its authors.

The accelerator is the neural graphics processing cluster of Mubarik et al. 2023, "Hardware Acceleration of Neural
Graphics" (ISCA): n processors, each with an engine for every level of a grid and an array for the network, alongside
fused kernels for the rest of a frame. The model is Amdahl's law (1967) on the shares of a frame. Speed-ups of encoding
and network are published for 64 processors; they are taken to grow with their number. The published averages for few
processors are larger than what follows from averaged shares, and smaller speed-ups than linear ones are implied there:
this is an estimate, no reproduction.
"""

from __future__ import annotations

from collections.abc import Mapping

PROCESSORS = (8, 16, 32, 64)
MEASURED_WITH = 64  # processors, for the two that follow
ENCODING, NETWORK = 246.0, 1232.0  # published speed-ups of the two kernels
REST = 9.94  # published speed-up of the rest of a frame by fused kernels, with any number of processors
# Mean of four applications with hash grids on an RTX 3090 at 1920x1080, and the published mean speed-ups by processors.
PUBLISHED_SHARES = {"encoding": 0.4024, "network": 0.3212, "rest": 0.2764}
PUBLISHED_SPEEDUPS = {8: 12.0, 16: 20.0, 32: 33.0, 64: 39.0}


def speedup(shares: Mapping[str, float], processors: int) -> float:
    """How many times faster a frame would be.

    Args:
        shares: of a frame's time, by "encoding", "network" and others, which together are the rest; their sum counts as
            the frame.
        processors: of the accelerator, n.

    Raises:
        ValueError: shares that are negative or all 0, or fewer than one processor.
    """
    encoding, network, rest = _split(shares)
    if processors < 1:
        raise ValueError(f"processors must be at least 1, got {processors}")
    linear = processors / MEASURED_WITH
    return 1 / (encoding / (ENCODING * linear) + network / (NETWORK * linear) + rest / REST)


def ceiling(shares: Mapping[str, float]) -> float:
    """The speed-up that no number of processors exceeds; infinite without a rest."""
    *_, rest = _split(shares)
    return REST / rest if rest > 0 else float("inf")


def _split(shares: Mapping[str, float]) -> tuple[float, float, float]:
    """Encoding, network and all others as shares of their sum."""
    total = sum(shares.values())
    if not total > 0 or min(shares.values()) < 0:
        raise ValueError(f"shares must be at least 0 and not all 0, got {dict(shares)}")
    encoding, network = shares["encoding"] / total, shares["network"] / total
    return encoding, network, 1 - encoding - network
