"""The parts of the protocol, in the order in which they run. A new system adds its parts in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from luxel.render.errors import LuxelError
from luxel.viewer.bench.record.part import Part
from luxel.viewer.bench.record.parts import convexes, fields, gaussians, loss, moving, raster, steps

PARTS: tuple[Part, ...] = (
    *raster.PARTS,
    *loss.PARTS,
    *gaussians.PARTS,
    *moving.PARTS,
    *convexes.PARTS,
    *steps.PARTS,
    *fields.PARTS,
)


def chosen_parts(names: Sequence[str]) -> list[Part]:
    """The parts of these names (or name beginnings, "raster"), in the protocol's order; all without names.

    Raises:
        LuxelError: a name that no part has.
    """
    for name in names:
        if not any(_is_named(part, name) for part in PARTS):
            raise LuxelError(
                f"--parts {name}: there is no such part.", f"Parts: {', '.join(part.name for part in PARTS)}."
            )
    return [part for part in PARTS if not names or any(_is_named(part, name) for name in names)]


def _is_named(part: Part, name: str) -> bool:
    return part.name == name or part.name.startswith(f"{name}-")
