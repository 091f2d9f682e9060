"""The shape of a tree of boxes, as the stages on meshes need it."""

from __future__ import annotations

from torch import Tensor

DEEPEST = 27  # tree


def tree_shape(stage: str, boxes: Tensor, triangles: Tensor) -> tuple[int, int]:
    """Depth of a tree and triangles per leaf.

    Args:
        stage: for the message.
        boxes, triangles: of a `luxel.render.mesh.tree.MeshTree`.

    Raises:
        ValueError: they are no such tree.
    """
    depth = (boxes.shape[0] + 1).bit_length() - 1
    leaf = triangles.shape[0] >> depth
    if not 1 <= depth <= DEEPEST or leaf < 1:
        raise ValueError(
            f"{stage}: tree must be of MeshTree.build, got {boxes.shape[0]} boxes, {triangles.shape[0]} triangles"
        )
    return depth, leaf
