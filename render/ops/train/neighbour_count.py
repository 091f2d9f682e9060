"""How many neighbours of a point the search finds, which its kernels are compiled for."""

MOST = 16
