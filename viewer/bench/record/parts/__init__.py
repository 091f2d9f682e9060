"""The parts of the protocol, in the order in which they run. A new system adds its parts in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from luxel.render.errors import LuxelError
from luxel.viewer.bench.record.part import Part
from luxel.viewer.bench.record.parts import (
    convexes,
    fields,
    gaussians,
    loss,
    moving,
    raster,
    steps,
    strangers,
)

PARTS: tuple[Part, ...] = (
    *raster.PARTS,
    *loss.PARTS,
    *gaussians.PARTS,
    *moving.PARTS,
    *convexes.PARTS,
    *steps.PARTS,
    *fields.PARTS,
    *strangers.PARTS,
)


def chosen_parts(names: Sequence[str]) -> list[Part]:
    """The parts that are named so, in the protocol's order; all without names.

    Args:
        names: of parts, or beginnings of names ("raster"). The name of a part means that part alone, though others
            begin with it.

    Raises:
        LuxelError: a name that no part has.
    """
    chosen: set[str] = set()
    for name in names:
        named = {part.name for part in PARTS if part.name == name} or {
            part.name for part in PARTS if part.name.startswith(f"{name}-")
        }
        if not named:
            raise LuxelError(
                f"--parts {name}: there is no such part.", f"Parts: {', '.join(part.name for part in PARTS)}."
            )
        chosen |= named
    return [part for part in PARTS if not names or part.name in chosen]
