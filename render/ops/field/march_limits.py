"""Limits of marched rays: constants that load nothing, so that options can be described without torch."""

MAX_CASCADES = 16  # boxes that rays are marched through, which the kernels are compiled for
MIN_TRANSMITTANCE = 1e-4  # a ray ends where it has less left
