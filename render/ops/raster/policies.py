"""The policies of the tile rasterizer, as the libraries report them: how a primitive's row on the screen is rendered.

Those of luxel are listed in cuda/math/raster/policies.h, others are added at run time (own_policies.py). Importing this
needs no library, the first `policy` does.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from luxel.render.errors import NativeError
from luxel.render.native import Library, cpu_library

_MULTI_EDGE, _HAS_ABSOLUTE, _PIXEL_DEPTH = 1, 2, 4  # flags, see cuda/abi/raster.h


class Policy(NamedTuple):
    """A policy of the tile rasterizer.

    Args:
        name: as primitives name it.
        number: in the arguments of the library that was asked.
        row: numbers of a splat: x, y, opacity, depth, and its own.
        piece: instances of a piece of a tile's list on the GPU.
        multi_edge: its alpha is a loop over edges.
        has_absolute: slots 3 and 7 of the gradient can be sums of absolute values.
        pixel_depth: its depth differs from pixel to pixel.
    """

    name: str
    number: int
    row: int
    piece: int
    multi_edge: bool
    has_absolute: bool
    pixel_depth: bool


@functools.cache
def policies(library: Library) -> dict[str, Policy]:
    """Those of a library by name, in the order of their numbers."""
    known = {}
    while reported := library.policy(len(known)):
        name, row, piece, flags = reported
        switches = (bool(flags & flag) for flag in (_MULTI_EDGE, _HAS_ABSOLUTE, _PIXEL_DEPTH))
        known[name] = Policy(name, len(known), row, piece, *switches)
    return known


def policy(name: str, stage: str) -> Policy:
    """The policy of a name, as the CPU library has it.

    Args:
        name: see `policies`.
        stage: that takes it, for the message.

    Raises:
        ValueError: there is none of that name.
        NativeError: no library is installed.
    """
    known = policies(cpu_library())
    if name not in known:
        raise ValueError(f"{stage}: primitive must be one of {', '.join(known)}, got {name}")
    return known[name]


def policy_number(name: str, library: Library, stage: str) -> int:
    """The number of a policy in the arguments of a library.

    Args:
        name: of a policy that the CPU library has.
        library: that is called.
        stage: that takes it, for the message.

    Raises:
        NativeError: it was added to other libraries only.
    """
    known = policies(library)
    if name not in known:
        raise NativeError(
            f"{stage}: {library.path.name} has no policy {name}.",
            "Register it for this kind of device, see luxel.render.ops.raster.own_policies.",
        )
    return known[name].number


__all__ = ["Policy", "policies", "policy", "policy_number"]
