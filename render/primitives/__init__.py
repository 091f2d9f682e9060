"""Primitives, one folder each: parameters, training, files, display. Everything else iterates this registry.

Importing it needs no torch: specifications import what computes with a primitive on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Literal

from luxel.render.errors import LuxelError
from luxel.render.lazy_exports import lazy_exports
from luxel.render.primitives.spec import PrimitiveEngine, PrimitiveSpec

if TYPE_CHECKING:
    from luxel.render.primitives.convexes.parameters import Convexes
    from luxel.render.primitives.gaussians.parameters import Gaussians
    from luxel.render.primitives.gaussians4d.parameters import Gaussians4d
    from luxel.render.primitives.parameters import Parameters
    from luxel.render.primitives.surfels.parameters import Surfels

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


# Folders of this one whose specification is registered, in the order of help texts and reports: a line for each.
BUILT_IN = (
    "gaussians",
    "gaussians4d",
    "convexes",
    "surfels",
)
for _name in BUILT_IN:
    register(import_module(f"{__name__}.{_name}.spec").SPEC)

if TYPE_CHECKING:
    PrimitiveName = str
else:
    PrimitiveName = Literal[tuple(PRIMITIVES)]  # as choices on the command line

__getattr__ = lazy_exports(
    __name__,
    {
        "Convexes": "convexes.parameters",
        "Gaussians": "gaussians.parameters",
        "Gaussians4d": "gaussians4d.parameters",
        "Parameters": "parameters",
        "Surfels": "surfels.parameters",
    },
)
__all__ = [
    "PRIMITIVES",
    "Convexes",
    "Gaussians",
    "Gaussians4d",
    "Parameters",
    "PrimitiveEngine",
    "PrimitiveName",
    "PrimitiveSpec",
    "Surfels",
    "register",
    "spec_of",
]
