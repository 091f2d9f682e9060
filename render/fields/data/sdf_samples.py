"""Training samples of a distance field: positions in the unit box with their exact distances from a mesh."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luxel.render.mesh.tree import MeshTree
from luxel.render.mesh.triangles import SurfaceSampler, TriangleMesh
from luxel.render.ops.mesh.mesh_distance import Sign, mesh_distance

# Standard deviations of what positions near the surface are moved by, in sides of the box.
NEAREST, WIDEST = 2e-4, 3e-2
RENEWED = 16  # a step replaces a 16th of a batch in the pool
AT_ONCE = 1 << 20  # samples computed at a time while a pool is filled


class SdfBatch(NamedTuple):
    """Positions in the unit box [S, 3] and their true distances [S]."""

    positions: Tensor
    distances: Tensor


class MeshSamples:
    """Random positions and their distances from a mesh; nothing waits for the device.

    Args:
        mesh: in the unit box, on the device of the samples and of their type.

    Attributes:
        sign: by pseudonormals where the mesh is closed, else by parity.
    """

    def __init__(self, mesh: TriangleMesh) -> None:
        self.sign: Sign = "pseudonormal" if mesh.is_closed() else "parity"
        if self.sign == "pseudonormal" and mesh.volume() < 0:
            mesh = mesh.flipped()
        self._tree, self._surface = MeshTree.build(mesh), SurfaceSampler(mesh)
        self._options: dict[str, Any] = {"device": mesh.vertices.device, "dtype": mesh.vertices.dtype}

    def draw(self, count: int, generator: torch.Generator) -> SdfBatch:
        """The first half uniform in the unit box, the rest near the surface, moved by Gaussians of many sizes."""
        near, options = count - count // 2, {"generator": generator, **self._options}
        uniform = torch.rand(count // 2, 3, **options)
        sizes = NEAREST * (math.log(WIDEST / NEAREST) * torch.rand(near, 1, **options)).exp()
        moved = self._surface.draw(near, generator) + sizes * torch.randn(near, 3, **options)
        return self.labelled(torch.cat([uniform, moved.clamp(0, 1)]))

    def labelled(self, positions: Tensor) -> SdfBatch:
        """Positions [S, 3] with their exact distances."""
        return SdfBatch(positions, mesh_distance(positions, self._tree, self.sign))


class SamplePool:
    """A pool of samples that batches are drawn from: one half uniform, the other near the surface.

    Each step replaces a few samples: exact distances of a full batch would take longer than the rest of the step.
    Shapes and addresses stay the same, so that steps can be captured.

    Args:
        samples: sampler that fills the pool.
        batch: samples of a step.
        batches: size of the pool.
        generator: on the device of the samples; not the one that steps draw with.

    Attributes:
        rows: x, y, z, distance, [2, batches * batch / 2, 4].
        next: the row that is replaced next, int64 [1].
    """

    def __init__(self, samples: MeshSamples, batch: int, batches: int, generator: torch.Generator) -> None:
        self._samples, self._batch, self._half = samples, batch, batches * batch // 2
        parts = []
        for first in range(0, self._half, AT_ONCE // 2):
            parts.append(_halves(samples.draw(2 * min(AT_ONCE // 2, self._half - first), generator)))
        self.rows = torch.cat(parts, 1)
        self.next = torch.zeros(1, dtype=torch.int64, device=self.rows.device)

    def draw(self, generator: torch.Generator) -> SdfBatch:
        """A batch, after some rows have been replaced, one after another around the pool."""
        anew = max(1, self._batch // RENEWED // 2)
        slots = (self.next + torch.arange(anew, device=self.next.device)) % self._half
        self.rows.index_copy_(1, slots, _halves(self._samples.draw(2 * anew, generator)))
        self.next.add_(anew).remainder_(self._half)
        chosen = torch.randint(self._half, (self._batch // 2,), generator=generator, device=self.next.device)
        rows = self.rows.index_select(1, chosen).flatten(0, 1)
        return SdfBatch(rows[:, :3].contiguous(), rows[:, 3])


def _halves(batch: SdfBatch) -> Tensor:
    """Rows x, y, z, distance of the uniform samples and of those near the surface, [2, n, 4]."""
    return torch.cat([batch.positions, batch.distances[:, None]], 1).view(2, -1, 4)
