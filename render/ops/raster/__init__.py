"""Stages of the tile rasterizer: project, bin, blend."""
