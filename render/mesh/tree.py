"""A tree of boxes over the triangles of a mesh, as the stages mesh_distance and trace_rays read it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from luxel.render.mesh.triangles import TriangleMesh, pseudonormals

MAX_OF_A_LEAF = 4  # triangles


@dataclass
class MeshTree:
    """A complete binary tree: node n has the children 2n + 1 and 2n + 2; of 2^depth leaves each has as many triangles.

    Attributes:
        boxes: of both children of each inner node, low x y z and high x y z, [2^depth - 1, 2, 6].
        triangles: corners, leaf after leaf, [2^depth * leaf, 3, 3]; NaN where there is none.
        pseudonormals: see `luxel.render.mesh.triangles.pseudonormals`, [2^depth * leaf, 7, 3]; [0, 7, 3] where the tree
            is for rays alone.
        numbers: of the triangle in each row, int32 [2^depth * leaf]; -1 where there is none.
    """

    boxes: Tensor
    triangles: Tensor
    pseudonormals: Tensor
    numbers: Tensor

    @classmethod
    def build(cls, mesh: TriangleMesh, *, for_rays: bool = False) -> MeshTree:
        """The tree of a mesh, on its device and in its float type.

        Level by level, all nodes at once are divided at the median along the longest side of the box around the
        centroids of their triangles.

        Args:
            mesh: with at least one triangle.
            for_rays: leave the pseudonormals out, which only distances need.

        Raises:
            ValueError: there are no triangles, or some that are not finite.
        """
        corners = mesh.corners()
        faces, device = len(corners), corners.device
        if not faces or not bool(corners.isfinite().all()):
            raise ValueError(f"MeshTree: mesh must have triangles, all of them finite, got {faces} triangles")
        depth = max(1, (-(-faces // MAX_OF_A_LEAF) - 1).bit_length())
        leaf = -(-faces // 2**depth)
        # Unused places are spread evenly: each repeats the triangle before it.
        order = torch.arange(leaf << depth, device=device) * faces // (leaf << depth)
        free = torch.zeros_like(order, dtype=torch.bool)
        free[1:] = order[1:] == order[:-1]
        a, b, c = corners.unbind(1)
        middles = a + b + c  # three times the centroids; bit-identical on every device, and so is the tree
        slots = torch.arange(len(order), device=device)[None]
        for _ in range(depth):
            positions = middles[order[slots]]
            x, y, z = (positions.amax(1) - positions.amin(1)).unbind(-1)
            widest = torch.where((x >= y) & (x >= z), 0, torch.where(y >= z, 1, 2))
            keys = positions.gather(2, widest[:, None, None].expand(-1, positions.shape[1], 1))[..., 0]
            slots = slots.gather(1, keys.sort(dim=1, stable=True).indices).view(2 * len(slots), -1)
        chosen = slots.flatten()
        selected, order = free[chosen], order[chosen]
        triangles = corners[order]
        low, high = _boxes(triangles, selected, depth, leaf)
        rows = torch.cat([low, high], -1)[1:].view(-1, 2, 6).clone()  # its own storage: aligned
        normals = corners.new_zeros(0, 7, 3) if for_rays else pseudonormals(mesh)[order]
        triangles[selected] = torch.nan
        numbers = torch.where(selected, -1, order).int()
        return cls(rows, triangles.contiguous(), normals.contiguous(), numbers)

    def to(self, target: torch.device | torch.dtype | str) -> MeshTree:
        """On another device or in another float type."""
        boxes = self.boxes.to(target)
        moved = self.triangles.to(target), self.pseudonormals.to(target)
        return MeshTree(boxes, *moved, self.numbers.to(boxes.device))


def _boxes(triangles: Tensor, free: Tensor, depth: int, leaf: int) -> tuple[Tensor, Tensor]:
    """Boxes of all nodes, level by level, the root first: low and high, [2^(depth + 1) - 1, 3]."""
    apart = free[:, None]
    low = torch.where(apart, torch.inf, triangles.amin(1)).view(-1, leaf, 3).amin(1)
    high = torch.where(apart, -torch.inf, triangles.amax(1)).view(-1, leaf, 3).amax(1)
    lows, highs = [low], [high]
    for _ in range(depth):
        lows.append(lows[-1].view(-1, 2, 3).amin(1))
        highs.append(highs[-1].view(-1, 2, 3).amax(1))
    return torch.cat(lows[::-1]), torch.cat(highs[::-1])
