"""The stages of the tile rasterizer in plain torch."""
