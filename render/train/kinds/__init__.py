"""The primitives that can be trained, one per file."""

from luxel.render.train.kinds.convexes import CONVEXES
from luxel.render.train.kinds.gaussians import GAUSSIANS
from luxel.render.train.kinds.gaussians4d import GAUSSIANS4D
from luxel.render.train.kinds.kind import AuxiliaryState, Kind, Term

KINDS: dict[str, Kind] = {kind.parameters.primitive: kind for kind in (GAUSSIANS, GAUSSIANS4D, CONVEXES)}

__all__ = ["KINDS", "AuxiliaryState", "Kind", "Term"]
