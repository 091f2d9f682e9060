"""The values: rulers, the up direction and the length of a unit, and the transform to other coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from luxel.render.errors import LuxelError
from luxel.render.primitives.similarity import Similarity
from luxel.scenes.files.scene_format import SceneFacts

Point = tuple[float, float, float]

UPRIGHT = (0.0, -1.0, 0.0)  # the up direction of upright coordinates, in luxel's axes


@dataclass(frozen=True)
class Ruler:
    """A line between two points.

    Args:
        name: unique among the rulers of a scene.
        start, end: coordinates of the capture, in its unit; of large coordinates those before they are shifted.
    """

    name: str
    start: Point
    end: Point

    @property
    def length(self) -> float:
        """Of the line, in units of the capture."""
        return math.dist(self.start, self.end)


@dataclass(frozen=True)
class Measurements:
    """What a user has measured in a scene; its primitives and cameras stay as they are.

    Args:
        up: upward direction of length 1, in the axes of the capture; None: that of the scene's file or capture.
        metres: length of a unit; None: that of the scene's file, if it states one.
        rulers: in the order in which they were made.
    """

    up: Point | None = None
    metres: float | None = None
    rulers: tuple[Ruler, ...] = ()

    def ruler(self, name: str) -> Ruler:
        """The ruler of a name.

        Raises:
            LuxelError: there is none.
        """
        for ruler in self.rulers:
            if ruler.name == name:
                return ruler
        raise LuxelError(f"there is no ruler {name[:80]!r}.", "Choose one of the list, or make one.")

    def over(self, facts: SceneFacts) -> SceneFacts:
        """Facts of a scene, with the up direction and the length of a unit that were measured instead of its own."""
        return replace(facts, up=self.up or facts.up, metres=self.metres or facts.metres)


def upright_transform(facts: SceneFacts, *, upright: bool, metric: bool) -> Similarity:
    """The transform of a scene to coordinates in which it stands upright, and in metres; about the origin.

    x' = metres R x, where R turns the up direction of the scene into `UPRIGHT` by the shortest way.

    Args:
        facts: of the scene.
        upright: turn it; otherwise R is the identity.
        metric: scale it; otherwise the factor is 1.

    Raises:
        LuxelError: the up direction, or the length of a unit, is not known.
    """
    if upright and facts.up is None:
        raise LuxelError(
            "the up direction of this scene is not known.",
            "Level it in the viewer (panel Ruler: Level by three points), or leave --upright out.",
        )
    if metric and facts.metres is None:
        raise LuxelError(
            "the length of a unit of this scene is not known.",
            "Set it in the viewer (panel Ruler: a ruler of known length), or leave --metric out.",
        )
    turn = Similarity.between(facts.up, UPRIGHT) if upright and facts.up is not None else Similarity()
    return replace(turn, scale=facts.metres) if metric and facts.metres is not None else turn


def transformed_facts(facts: SceneFacts, *, upright: bool, metric: bool) -> SceneFacts:
    """Facts of a scene after `upright_transform`. Its coordinates are no longer those of the capture minus a shift."""
    return replace(
        facts,
        up=UPRIGHT if upright else facts.up,
        metres=1.0 if metric else facts.metres,
        shift=None if upright or metric else facts.shift,
    )
