"""How many boxes rays are marched through at most, which the kernels are compiled for."""

MOST_CASCADES = 16
