"""Primitives, one folder each: parameters, training, files, display. Everything else iterates this registry."""

from typing import TYPE_CHECKING, Literal

from luxel.render.errors import LuxelError
from luxel.render.primitives import convexes, gaussians, gaussians4d, surfels
from luxel.render.primitives.convexes import Convexes
from luxel.render.primitives.gaussians import Gaussians
from luxel.render.primitives.gaussians4d import Gaussians4d
from luxel.render.primitives.parameters import Parameters
from luxel.render.primitives.spec import PrimitiveSpec
from luxel.render.primitives.surfels import Surfels

PRIMITIVES: dict[str, PrimitiveSpec] = {}


def register(spec: PrimitiveSpec) -> None:
    """Adds a primitive to the registry.

    Raises:
        ValueError: there is another one of that name.
    """
    if PRIMITIVES.setdefault(spec.name, spec) is not spec:
        raise ValueError(f"spec.name must be new, got {spec.name}, which another primitive has")


def spec_of(name: str) -> PrimitiveSpec:
    """The specification of a primitive.

    Raises:
        LuxelError: there is none of that name.
    """
    if name not in PRIMITIVES:
        raise LuxelError(f"There is no primitive {name!r}.", f"Known are {', '.join(PRIMITIVES)}.")
    return PRIMITIVES[name]


register(gaussians.SPEC)
register(gaussians4d.SPEC)
register(convexes.SPEC)
register(surfels.SPEC)

if TYPE_CHECKING:
    PrimitiveName = str
else:
    PrimitiveName = Literal[tuple(PRIMITIVES)]  # as choices on the command line

__all__ = [
    "PRIMITIVES",
    "Convexes",
    "Gaussians",
    "Gaussians4d",
    "Parameters",
    "PrimitiveName",
    "PrimitiveSpec",
    "Surfels",
    "register",
    "spec_of",
]
