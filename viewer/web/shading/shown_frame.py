"""The images of a scene that an image of a page is made from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from luxel.render.scene import Layers


@dataclass(frozen=True)
class ShownFrame:
    """Layers of a scene, see `luxel.render.scene.Layers`; None: the scene has none, or none was needed.

    Args:
        rgb: colours over the background, [H, W, 3].
        alpha, depth, median_depth, count: [H, W].
        normals: [H, W, 3].
        splats, tile_counts: rows of primitives on the screen.
    """

    rgb: Tensor
    alpha: Tensor | None = None
    depth: Tensor | None = None
    median_depth: Tensor | None = None
    normals: Tensor | None = None
    count: Tensor | None = None
    splats: Tensor | None = None
    tile_counts: Tensor | None = None

    @staticmethod
    def of(layers: Layers) -> ShownFrame:
        """The frame of some layers."""
        names = {"colour": "rgb", "normal": "normals"}
        return ShownFrame(**{names.get(name, name): image for name, image in layers.images.items()})
