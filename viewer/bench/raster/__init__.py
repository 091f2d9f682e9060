"""The benchmark of the rasterizer."""
