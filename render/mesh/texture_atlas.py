"""Where the triangles of a mesh are in a texture: charts by the package xatlas, and the texels of each triangle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from luxel.render.mesh.extras import mesh_package
from luxel.render.mesh.triangles import TriangleMesh

GUTTER = 4  # texels between charts, which get the colours next to them
CANDIDATES = 1 << 22  # texels that are looked at at a time
ESTIMATED = 1024  # pixels of the image that xatlas packs where no resolution is given
OUTSIDE = 1e-4  # barycentric coordinate of texels that just count as inside


class Unwrapped(NamedTuple):
    """A mesh whose vertices are doubled where its charts are cut.

    Args:
        mesh: V vertices; the triangles in the order of the original.
        source: vertex of the original mesh, int64 [V].
        uv: place in the texture, in [0, 1], (0, 0) at its top left corner, [V, 2].
        normals: outward, of the original mesh, [V, 3].
    """

    mesh: TriangleMesh
    source: Tensor
    uv: Tensor
    normals: Tensor


def unwrap(mesh: TriangleMesh, pixels: int) -> Unwrapped:
    """Cuts a mesh into charts and packs them into a square image; on the CPU, about a minute for 100,000 triangles.

    Args:
        mesh: to be textured.
        pixels: along each side of the image, for the space between charts.

    Raises:
        LuxelError: the package is not installed.
    """
    package = mesh_package("xatlas")
    vertices = mesh.vertices.float().cpu().numpy()
    faces = mesh.faces.cpu().numpy().astype(np.uint32)
    for resolution, padding in ((pixels, GUTTER), (0, max(1, GUTTER * ESTIMATED // pixels))):
        atlas, options = package.Atlas(), package.PackOptions()
        options.resolution, options.padding, options.bilinear = resolution, padding, True
        atlas.add_mesh(np.ascontiguousarray(vertices), np.ascontiguousarray(faces))
        atlas.generate(pack_options=options)
        if atlas.atlas_count == 1:  # else the charts did not fit into one image of this size
            break
    source, cut, uv = (np.array(part) for part in atlas[0])
    device = mesh.vertices.device
    which = torch.from_numpy(source.astype(np.int64)).to(device)
    triangles = torch.from_numpy(cut.reshape(-1, 3).astype(np.int64)).to(mesh.faces)
    positions = torch.from_numpy(uv.astype(np.float32)).to(device).clamp(0, 1)
    cut_mesh = TriangleMesh(mesh.vertices[which], triangles)
    return Unwrapped(cut_mesh, which, positions, mesh.vertex_normals()[which])


class Texels(NamedTuple):
    """The texels that triangles cover.

    Args:
        index: row * pixels + column, ascending, int64 [T].
        face: of each, int64 [T].
        shares: of the corners of the face at the centre of the texel, [T, 3]; they add up to 1.
    """

    index: Tensor
    face: Tensor
    shares: Tensor


def covered_texels(unwrapped: Unwrapped, pixels: int) -> Texels:
    """The texels of an image of pixels x pixels whose centres are in a triangle; of several, in the last."""
    corners = (unwrapped.uv * pixels)[unwrapped.mesh.faces.long()]  # [F, 3, 2]
    owner = torch.full((pixels * pixels,), -1, dtype=torch.int64, device=corners.device)
    for face, column, row in _candidates(corners, pixels):
        inside = (_shares(corners[face], column, row) >= -OUTSIDE).all(-1)
        face, position = face[inside], (row * pixels + column)[inside]
        owner.scatter_reduce_(0, position, face, "amax")
    index = (owner >= 0).nonzero()[:, 0]
    face = owner[index]
    return Texels(index, face, _shares(corners[face], index % pixels, index // pixels))


def _candidates(corners: Tensor, pixels: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Triangles, columns and rows of all texels with the centre in a triangle's box, some triangles at a time."""
    low = (corners.amin(1) - 0.5).ceil().long().clamp(min=0)
    high = (corners.amax(1) - 0.5).floor().long().clamp(max=pixels - 1)
    size = (high - low + 1).clamp(min=0)
    ends = size.prod(1).cumsum(0)
    first = 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(torch.searchsorted(ends, done + CANDIDATES, right=True)))
        faces = torch.arange(first, last, device=corners.device)
        count = size[first:last].prod(1)
        face = faces.repeat_interleave(count)
        number = torch.arange(len(face), device=corners.device) - (ends[face] - size[face].prod(1) - done)
        width = size[face, 0]
        yield face, low[face, 0] + number % width, low[face, 1] + number // width
        first = last


def _shares(corners: Tensor, column: Tensor, row: Tensor) -> Tensor:
    """Barycentric coordinates of the centres of texels in triangles [T, 3, 2], [T, 3]; NaN in those without area."""
    point = torch.stack([column + 0.5, row + 0.5], -1)
    a, b, c = (corners - point[:, None]).double().unbind(1)
    parts = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], -1)
    return (parts / parts.sum(-1, keepdim=True)).to(corners.dtype)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
