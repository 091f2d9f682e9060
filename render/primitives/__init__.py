"""Primitives: parameters, activations, and what a rasterizer needs of them. One file per primitive."""

from luxel.render.primitives.gaussians import Gaussians

__all__ = ["Gaussians"]
