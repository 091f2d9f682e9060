"""How many points a convex may have, which its kernels are compiled for."""

FEWEST, MOST = 3, 8
